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

from services.payment.settings import PaymentSettings
from services.provider.command import provider as provider_command
from services.tables import create_tables
from tests.integration.services.provider_process import provider_running

pytestmark = pytest.mark.slow
PAGE = (Path(__file__).parents[3] / "docs" / "payments.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def lines(program: str) -> list[list[str]]:
    shell = "\n".join(blocks("sh")).replace("\\\n", " ")
    return [words for words in map(shlex.split, shell.splitlines()) if words and words[0] == program]


async def test_every_request_shown_is_answered(empty_database_url: str, tmp_path: Path) -> None:
    requests = lines("curl")
    assert len(requests) == 6
    async with provider_running(empty_database_url, tmp_path) as provider:
        async with httpx.AsyncClient(base_url=provider.url) as client:
            for words in requests:
                path = next(word for word in words if word.startswith("http")).removeprefix("http://127.0.0.1:6070")
                headers = dict(words[at + 1].split(": ") for at, word in enumerate(words) if word == "-H")
                bodies = [words[at + 1] for at, word in enumerate(words) if word == "--json"]
                kind = {"content-type": "application/json"} if bodies else {}
                method = "POST" if bodies else "GET"
                answer = await client.request(method, path, headers={**kind, **headers}, content="".join(bodies))
                assert answer.is_success, f"{shlex.join(words)}\n{answer.text}"
                json.loads(answer.text)
        assert await provider.sums() == (1, 1999, 1999)


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


def test_every_setting_is_documented() -> None:
    names = [f"`SUREFOOT_PAYMENT_{name.upper()}`" for name in PaymentSettings.model_fields]
    assert [name for name in names if name not in PAGE] == []
