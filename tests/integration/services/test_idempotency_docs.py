"""What docs/idempotency.md shows is run: the till is served, and asked as the page asks it. What it says is so."""

import asyncio
import os
import re
import shlex
import socket
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import get_args

import asyncpg
import httpx
import orjson
import pytest

from surefoot.http.idempotency_key import LONGEST, SHORTEST, read_key
from surefoot.idempotency.deciding import UNSTORED_STATUSES
from surefoot.idempotency.http.problems import PAGES, REPLAYED, ProblemName
from surefoot.idempotency.settings import Route
from surefoot.process_guard import create_guarded_process
from tests.support.curl import curls
from tests.support.services.provider_process import provider_running
from tests.support.waiting import eventually

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "idempotency.md").read_text()
PROVIDER, TILL = "http://127.0.0.1:6070", "http://127.0.0.1:8001"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def written(directory: Path, instead: Mapping[str, str]) -> list[str]:
    """The page's programs, at other addresses; their names."""
    names = []
    for text in blocks("python"):
        for was, is_now in instead.items():
            text = text.replace(was, is_now)
        name = text.splitlines()[0].removeprefix("# ")
        (directory / name).parent.mkdir(exist_ok=True)
        (directory / name).write_text(text)
        names.append(name)
    return names


async def run(command: list[str], directory: Path, environment: Mapping[str, str]) -> str:
    process = await asyncio.create_subprocess_exec(
        *command, cwd=directory, env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    said, _ = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0, said.decode()
    return said.decode()


@asynccontextmanager
async def served(words: list[str], directory: Path, environment: Mapping[str, str], at: str) -> AsyncIterator[None]:
    """uvicorn, as the page starts it, at another port."""
    program, app, flag, _ = words
    assert (program, flag) == ("uvicorn", "--port")
    with (directory / "till.log").open("wb") as log:
        process = await create_guarded_process(
            *(sys.executable, "-m", "uvicorn", app, flag, at.rpartition(":")[2]),
            cwd=directory,
            env=environment,
            stdout=log,
            stderr=log,
        )
    try:

        async def is_up() -> bool:
            assert process.returncode is None, (directory / "till.log").read_text()
            return "Application startup complete" in (directory / "till.log").read_text()

        await eventually(is_up, what="the till is open")
        yield
    finally:
        if process.returncode is None:
            process.terminate()
        assert await asyncio.wait_for(process.wait(), 60) in (0, -15), (directory / "till.log").read_text()


@pytest.mark.slow
async def test_the_till_works_as_the_page_shows_it(database_url: str, tmp_path: Path) -> None:
    setup, asking, _ = blocks("sh")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        till = f"http://127.0.0.1:{listener.getsockname()[1]}"
    async with provider_running(database_url, tmp_path) as provider:
        names = written(tmp_path, {PROVIDER: provider.url, TILL: till})
        assert names == [f"till/{name}.py" for name in ("client", "points", "provider", "charges", "api", "prepare")]
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("SUREFOOT_")},
            "SUREFOOT_DATABASE": database_url,
            "PYTHONPATH": str(tmp_path),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        }
        (secrets,) = [line for line in setup.splitlines() if line.startswith("export SUREFOOT_IDEMPOTENCY_SECRETS")]
        made = await run(["bash", "-c", f"{secrets}; echo $SUREFOOT_IDEMPOTENCY_SECRETS"], tmp_path, environment)
        environment["SUREFOOT_IDEMPOTENCY_SECRETS"] = made.strip()
        await run([sys.executable, "-m", "till.prepare"], tmp_path, environment)
        (serving,) = [shlex.split(line) for line in setup.splitlines() if line.startswith("uvicorn")]
        async with served(serving, tmp_path, environment, till), httpx.AsyncClient(timeout=30) as client:
            answers = [await curl.sent(client, instead_of=TILL, at=till) for curl in curls(asking, TILL)]
            said = await run([sys.executable, "-m", "till.client"], tmp_path, environment)
        gift, again, refused, charge, page = answers
        assert (gift.status_code, gift.json()) == (201, {"customer": "ada", "points": 10})
        assert (again.status_code, again.content, again.headers[REPLAYED[0]]) == (201, gift.content, REPLAYED[1])
        (problem,) = blocks("json")
        assert refused.json() == {**orjson.loads(problem), "first_at": refused.json()["first_at"]}
        assert (charge.status_code, charge.json()["minor_units"]) == (201, 1999)
        assert (page.status_code, "text/html" in page.headers["content-type"]) == (200, True)
        assert re.fullmatch(r"201 ch_[0-9a-f]{32} new\n", said)
        assert await provider.sums() == (2, 3998, 0)
    connection = await asyncpg.connect(database_url)
    try:
        settled = await connection.fetchval("SELECT count(*) FROM charges WHERE transaction IS NOT NULL")
        assert (settled, await connection.fetchval("SELECT points FROM points")) == (2, 10)
        assert await connection.fetchval("SELECT count(*) FROM surefoot.outbox WHERE topic = 'till.points'") == 1
    finally:
        await connection.close()


def test_what_the_first_page_shows_is_a_part_of_the_till() -> None:
    shown = re.findall(r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    (handler,) = [text for text in shown if "@idempotent" in text]
    assert handler in "".join(blocks("python"))


def test_the_header_lines_shown_are_what_is_read_and_sent() -> None:
    request, replayed = blocks("http")
    (line,) = re.findall(r"^Idempotency-Key: (.*)$", request, re.MULTILINE)
    assert read_key([line.encode()], strict=True) == read_key([line.strip('"').encode()], strict=False)
    assert replayed.strip().lower() == ": ".join(REPLAYED)


@pytest.mark.parametrize("name", get_args(ProblemName))
def test_every_problem_has_its_place_on_the_page(name: ProblemName) -> None:
    assert re.search(rf"^#### {name}\n\n[45]\d\d", PAGE, re.MULTILINE)
    assert PAGES[name]


def test_the_page_says_what_the_code_does() -> None:
    assert f"| {', '.join(str(status) for status in sorted(UNSTORED_STATUSES))} | not stored" in PAGE
    assert f"{SHORTEST} to {LONGEST} visible" in PAGE
    assert [int(window.total_seconds()) for window in (Route().replay_for, Route().gone_for)] == [24 * 3600] * 2
    assert f"| `attempts` | {Route().attempts} |" in PAGE
