"""What docs/payments.md shows is run."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import pytest
import typer
from typer.main import get_command

from services.provider.command import provider as provider_command
from services.tables import create_tables
from tests.support.curl import curls
from tests.support.services.payment_api_process import api_process
from tests.support.services.provider_process import provider_running

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "payments.md").read_text()
PROVIDER, API = "http://127.0.0.1:6070", "http://127.0.0.1:8070"
API_KEYS = "SUREFOOT_PAYMENT_API_KEYS"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def lines(program: str) -> list[list[str]]:
    shell = "\n".join(blocks("sh")).replace("\\\n", " ")
    return [words for words in map(shlex.split, shell.splitlines()) if words and words[0] == program]


async def test_every_request_shown_to_the_provider_is_answered(empty_database_url: str, tmp_path: Path) -> None:
    requests = curls("\n".join(blocks("sh")), PROVIDER)
    assert len(requests) == 6
    async with provider_running(empty_database_url, tmp_path) as provider:
        async with httpx.AsyncClient() as client:
            for curl in requests:
                answer = await curl.sent(client, instead_of=PROVIDER, at=provider.url)
                assert answer.is_success, f"{curl}\n{answer.text}"
                json.loads(answer.text)
        assert await provider.sums() == (1, 1999, 1999)


async def test_every_request_shown_to_the_payments_api_is_answered(database_url: str, tmp_path: Path) -> None:
    requests = curls("\n".join(blocks("sh")), API)
    readme = curls((ROOT / "README.md").read_text(), API)
    assert (len(requests), len(readme)) == (4, 1)
    async with (
        provider_running(database_url, tmp_path) as provider,
        api_process(database_url, provider.url, tmp_path) as api,
        httpx.AsyncClient(timeout=30) as client,
    ):
        await api.start(SUREFOOT_PAYMENT_API_KEYS=api_keys())
        answers = [await curl.sent(client, instead_of=API, at=api.at) for curl in (*requests, *readme)]
        assert [answer.status_code for answer in answers] == [201, 200, 201, 200, 201]
        assert answers[-1].content == answers[0].content  # the same request, under the same key
        assert [line["change"]["minor_units"] for line in answers[3].json()["lines"]] == [1999, -500]
        assert await provider.sums() == (1, 1999, 0)


def api_keys() -> str:
    """As the page sets them."""
    return next(words[1].partition("=")[2] for words in lines("export") if words[1].startswith(f"{API_KEYS}="))


def test_every_way_shown_to_start_the_provider_is_one() -> None:
    app = typer.Typer()
    app.command()(provider_command)
    shown = lines("python")
    assert len(shown) == 2
    for _, flag, module, *arguments in shown:
        assert (flag, module) == ("-m", "services.provider")
        get_command(app).make_context("provider", arguments)


async def test_the_query_shown_runs(empty_database_url: str) -> None:
    await create_tables(empty_database_url, "payment")
    connection = await asyncpg.connect(empty_database_url)
    try:
        (query,) = blocks("sql")
        assert await connection.fetch(query) == []
    finally:
        await connection.close()


async def test_the_programs_shown_run(empty_database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for service in ("order", "payment", "provider"):
        await create_tables(empty_database_url, service)
    (proof,) = (compiled(text) for text in blocks("python"))
    monkeypatch.setenv("SUREFOOT_DATABASE", empty_database_url)
    assert await proof["proof"]() == []


def compiled(text: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(text, names)  # noqa: S102  a page of our own
    return names
