"""What docs/ledger.md shows is run, and the alert rules are about metrics that there are."""

import re
from pathlib import Path
from typing import Any, get_args

import yaml
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from services.checks.ledger import Violation
from services.ledger import Done
from services.ledger.move import Reason
from services.ledger.moves import REFUSED
from tests.support.corpus import each_of
from tests.support.services.ledger_harness import eur, ledger_on

DOCS = Path(__file__).parents[3] / "docs"
PAGE = (DOCS / "ledger.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def compiled(program: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(program, names)  # noqa: S102  a page of our own
    return names


async def test_the_programs_and_queries_shown_run(empty_database_url: str) -> None:
    alone, within = (compiled(program) for program in blocks("python"))
    async with ledger_on(empty_database_url) as ledger:
        assert await alone["pay"](ledger) == Done(eur("30.01"))
        async with AsyncSession(ledger._engine) as session:
            assert await within["book"](session, "order-8", eur("5.00")) == Done(eur("25.01"))
            assert await within["book_patiently"](session, "order-8", eur("0.50")) == Done(eur("24.49"))
            await session.commit()
        (queries,) = blocks("sql")
        async with ledger._engine.connect() as connection:
            found = [(await connection.execute(text(query))).all() for query in queries.split(";") if query.strip()]
        assert [len(rows) for rows in found] == [3, 2]


@each_of("word", [*get_args(Reason), *get_args(Violation)], expected=10)
def test_every_reason_and_violation_is_explained(word: str) -> None:
    assert f"`{word}`" in PAGE


def test_the_alert_on_conflicts_is_about_the_metric_and_leads_to_what_to_do() -> None:
    groups = yaml.safe_load((DOCS / "alerts.yaml").read_text())["groups"]
    (rule,) = [rule for group in groups if group["name"] == "surefoot-ledger" for rule in group["rules"]]
    (metric,) = REFUSED.describe()
    assert rule["expr"] == f'sum(increase({metric.name}_total{{reason="CONFLICT"}}[5m])) > 5'
    page, anchor = rule["annotations"]["runbook_url"].split("#")
    assert re.search(rf"^## {anchor}$", (DOCS.parent / page).read_text(), re.MULTILINE | re.IGNORECASE)
