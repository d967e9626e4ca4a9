"""What docs/webhooks.md shows is run, and every word that a webhook can be answered with is explained there."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any, get_args

import pytest
from sqlalchemy import CheckConstraint

from services.payment.charge_states import Outcome
from services.payment.payment_events import KINDS
from services.payment.settings import WebhookSettings
from services.payment.tables import payment_events
from surefoot.webhooks import Reason
from tests.support.corpus import each_of
from tests.support.services.webhook_harness import SECRET, webhook_ground

PAGE = (Path(__file__).parents[3] / "docs" / "webhooks.md").read_text()
OTHER_REASONS = ("does_not_fit", "cut_off", "too_large", "failed")
(STATES,) = (
    re.findall(r"'([A-Z]+)'", str(constraint.sqltext))
    for constraint in payment_events.constraints
    if isinstance(constraint, CheckConstraint)
)


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


async def test_the_event_shown_is_applied_and_the_queries_shown_run(database_url: str) -> None:
    (body,), (queries,) = blocks("json"), blocks("sql")
    async with webhook_ground(database_url) as ground:
        await ground.charge()
        assert await ground.outcome(body.encode()) == "applied"
        await ground.charge("ch-2", txn=None, status="DECLINED")
        other = {**json.loads(body)["data"], "gateway_txn_id": "txn-2", "charge_id": "ch-2"}
        assert await ground.outcome(json.dumps({**json.loads(body), "id": "e-2", "data": other}).encode()) == (
            "contradicted"
        )
        unknown = {**other, "gateway_txn_id": "txn-3", "charge_id": "ch-3"}
        assert await ground.outcome(json.dumps({**json.loads(body), "id": "e-3", "data": unknown}).encode()) == (
            "unmatched"
        )
        found = [await ground.connection.fetch(query) for query in queries.split(";") if query.strip()]
    assert [len(rows) for rows in found] == [1, 1]


def test_the_program_shown_believes_what_it_signs_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    (program,) = blocks("python")
    assert SECRET in program
    names: dict[str, Any] = {}
    exec(program, names)  # noqa: S102  a page of our own
    headers = [(name.encode(), value.encode()) for name, value in names["headers_of"]("msg_1", b"{}").items()]
    assert names["is_believed"](headers, b"{}")
    assert not names["is_believed"](headers, b"{} ")
    assert capsys.readouterr().out.startswith("wrong_signature ")


def test_the_secret_that_is_made_is_a_good_one(monkeypatch: pytest.MonkeyPatch) -> None:
    (setup,) = blocks("sh")
    (line,) = [line for line in setup.splitlines() if line.startswith("export")]
    done = subprocess.run(
        ["bash", "-c", f"{line}; echo $SUREFOOT_PAYMENT_WEBHOOK_SECRETS"],
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    monkeypatch.setenv("SUREFOOT_PAYMENT_WEBHOOK_SECRETS", done.stdout.strip())
    assert len(WebhookSettings().keys()) == 1


@each_of("word", [*get_args(Outcome), "ignored", *get_args(Reason), *OTHER_REASONS, *KINDS], expected=20)
def test_every_outcome_reason_and_kind_is_explained(word: str) -> None:
    assert f"`{word}`" in PAGE


@pytest.mark.parametrize("state", STATES)
def test_every_state_of_an_event_is_explained(state: str) -> None:
    assert f"| {state} |" in PAGE
