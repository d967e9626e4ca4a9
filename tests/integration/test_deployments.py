"""The platform's deployments, as `python -m` runs them: each starts, ends well on Ctrl-C, and refuses what is wrong."""

import asyncio
import os
import re
import signal
from collections.abc import Mapping
from subprocess import PIPE, STDOUT

import httpx
import pytest

from schemas import catalogue
from surefoot.cli.topics import declared
from surefoot.log.postgres.log import PostgresLog
from tests.support import processes
from tests.support.command_line import assert_says
from tests.support.waiting import LONG_ENOUGH_S, eventually

pytestmark = pytest.mark.slow  # each starts a process

NOWHERE = "postgresql://nobody@127.0.0.1:1/none"
EVERY = ["outbox_publisher", "orchestrator", "dlq", "consumers"]


def environment(**given: str) -> Mapping[str, str]:
    known = {name: value for name, value in os.environ.items() if not name.startswith(("SUREFOOT_", "PG"))}
    return {**known, "COLUMNS": "200", "NO_COLOR": "1", **given}


async def lines_until(process: processes.AsyncChild, words: str) -> str:
    """What it has said up to the line with these words."""
    assert process.stdout is not None
    said = ""
    while words not in said:
        line = (await process.stdout.readline()).decode()
        assert line, f"It ended without saying {words!r}:\n{said}"
        said += line
    return said


async def answers(url: str) -> None:
    async with httpx.AsyncClient(trust_env=False) as client:

        async def look() -> bool:
            try:
                return (await client.get(url)).is_success
            except httpx.TransportError:
                return False

        await eventually(look, what=f"{url} answers")


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["outbox_publisher"], "gained"),
        (["orchestrator"], "gained"),
        (["dlq", "--port", "0", "--open"], "Dead letters are at "),
        (["consumers"], "gained"),
        (["consumers", "payment", "order"], "gained"),
    ],
    ids=["outbox_publisher", "orchestrator", "dlq", "consumers", "consumers by name"],
)
async def test_it_starts_and_ctrl_c_ends_it_well(command: list[str], words: str, database_url: str) -> None:
    """It has gained shards or partitions, or answers over HTTP: it is at work when it is told to stop."""
    log = PostgresLog(database_url)
    await log.create(declared(catalogue))
    await log.close()
    process = await processes.start_async(
        command, environment=environment(SUREFOOT_DATABASE=database_url), stdout=PIPE, stderr=STDOUT
    )
    try:
        said = await asyncio.wait_for(lines_until(process, words), LONG_ENOUGH_S)
        for url in re.findall(r"(http://\S+)/groups", said):
            await answers(f"{url}/healthz")
        process.send_signal(signal.SIGINT)
        rest, _ = await process.communicate()
    finally:
        await processes.end(process)
    assert process.returncode == 0, said + rest.decode()
    assert "Traceback" not in said + rest.decode()


@pytest.mark.parametrize("module", EVERY)
async def test_without_a_database_it_says_how_to_name_one(module: str) -> None:
    done = await processes.run_async([module], environment=environment())
    assert_says(done, "No database was given. Say --database postgresql://user:password@host:5432/name")


@pytest.mark.parametrize(
    ("module", "variable"),
    [
        ("outbox_publisher", "SUREFOOT_RELAY_RETENTION"),
        ("orchestrator", "SUREFOOT_ORCHESTRATOR_HISTORY_RETENTION"),
        ("dlq", "SUREFOOT_DLQ_RETENTION"),
        ("consumers", "SUREFOOT_CONSUMER_RETENTION"),
    ],
)
async def test_a_variable_that_cannot_be_used_is_named(module: str, variable: str) -> None:
    done = await processes.run_async([module, "--database", NOWHERE], environment=environment(**{variable: "soon"}))
    assert_says(done, f"{variable} cannot be used")
    assert "Times are written like PT10S" in done.err


async def test_a_service_that_there_is_not_is_refused_by_name() -> None:
    done = await processes.run_async(["consumers", "post"], environment=environment(SUREFOOT_DATABASE=NOWHERE))
    assert_says(done, "'post' is no service that runs by itself: choose from checkout, order, payment")


@pytest.mark.parametrize("module", EVERY)
async def test_its_help_has_the_options_of_the_command(module: str) -> None:
    done = await processes.run_async([module, "--help"], environment=environment())
    assert (done.code, done.err) == (0, "")
    for option in ("--database", "--kafka", "--metrics-port", "--log-format"):
        assert option in done.out
