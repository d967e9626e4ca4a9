"""Intake or the hearing of answers dies, or freezes past its lease, at each step of a batch: nothing is lost, nothing
counts twice."""

import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import asyncpg
import pytest

from surefoot.log.postgres.log import PostgresLog
from tests.support.dlq.letters import count, letter_record, put, there_are
from tests.support.dlq.outcomes import asked, items, letters_in, say
from tests.support.dlq.service import all_read
from tests.support.processes import end
from tests.support.relay.processes import RelayProcess, start_process
from tests.support.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.promise("P5", "P7")]

STEPS = {
    "written, not committed": "written",
    "committed, offset not told": "taken",
    "offset told": "committed",
}
LETTERS = [letter_record(f"e-{n}", key=f"k-{n}") for n in range(100)]
AGAIN = [letter_record(f"e-{n}", key=f"k-{n}", after_s=60, replays="1") for n in range(50)]
LETS_GO = {"SUREFOOT_DLQ_TRANSACTION_TIMEOUT": "PT4S"}
"""The server ends the transaction of a part that is frozen after so long."""
Start = Callable[..., Awaitable[RelayProcess]]


@pytest.fixture
async def start(database_url: str, tmp_path: Path) -> AsyncIterator[Start]:
    """Starts a part; kills what is left of them at the end, by their own ids."""
    started: list[RelayProcess] = []

    async def start_one(part: str, failpoints: str = "") -> RelayProcess:
        command = ["tests.support.dlq.part_process", part, database_url]
        log = tmp_path / f"{part}-{len(started)}.log"
        process = await start_process(command, log, {"SUREFOOT_FAILPOINTS": failpoints, **LETS_GO})
        started.append(process)
        return process

    yield start_one
    await end(*(one.process for one in started))


@pytest.mark.parametrize("step", STEPS)
async def test_an_intake_that_is_killed_loses_and_doubles_nothing(
    step: str, connection: asyncpg.Connection, log: PostgresLog, topic: str, start: Start
) -> None:
    await put(log, topic + ".dlq", *LETTERS, *AGAIN)
    victim = await start("intake", f"dlq.intake.{STEPS[step]}=kill@2")
    assert await victim.ended() == -signal.SIGKILL
    await start("intake")
    await all_read(log, topic + ".dlq")
    await every_letter_counts_once(connection)


@pytest.mark.parametrize("step", STEPS)
async def test_an_intake_that_freezes_and_wakes_doubles_nothing(
    step: str, connection: asyncpg.Connection, log: PostgresLog, topic: str, start: Start
) -> None:
    await put(log, topic + ".dlq", *LETTERS, *AGAIN)
    victim = await start("intake", f"dlq.intake.{STEPS[step]}=stop@2")
    await victim.stopped()
    other = await start("intake")
    await all_read(log, topic + ".dlq")
    victim.signal(signal.SIGCONT)
    await stop(other)  # so that the woken one gets through what it has in hand, and takes the next letter in
    await put(log, topic + ".dlq", letter_record("e-100"))
    await there_are(connection, 101)
    await connection.execute("DELETE FROM surefoot.dlq_events WHERE event_id = 'e-100'")
    await every_letter_counts_once(connection)
    await stop(victim)


@pytest.mark.parametrize("step", STEPS)
async def test_a_killed_hearing_of_answers_loses_and_doubles_none(
    step: str, database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str, start: Start
) -> None:
    names = [f"e-{n}" for n in range(100)]
    await letters_in(connection, database_url, log, *names)
    job = await asked(connection, "replay", *names)
    await say(log, *(job.answer(n, "done" if n % 2 else "failed_again") for n in range(100)))
    victim = await start("outcomes", f"dlq.outcomes.{STEPS[step]}=kill@2")
    assert await victim.ended() == -signal.SIGKILL
    await start("outcomes")
    await eventually(lambda: all_answered(connection), what="every item is answered")
    await every_answer_counts_once(connection)


@pytest.mark.parametrize("step", STEPS)
async def test_a_hearing_of_answers_that_freezes_and_wakes_takes_none_twice(
    step: str, database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str, start: Start
) -> None:
    """It wakes behind a second job on the same letters: the answers in its hands are to the first."""
    names = [f"e-{n}" for n in range(100)]
    await letters_in(connection, database_url, log, *names)
    job = await asked(connection, "replay", *names)
    await say(log, *(job.answer(n, "done" if n % 2 else "failed_again") for n in range(100)))
    frozen = await start("outcomes", f"dlq.outcomes.{STEPS[step]}=stop@2")
    await frozen.stopped()
    other = await start("outcomes")
    await all_read(log, "dlq.outcomes", "dlq.outcomes")
    await every_answer_counts_once(connection)

    second = await asked(connection, "replay", *names[::2])
    frozen.signal(signal.SIGCONT)
    await stop(other)
    await say(log, second.answer(0, "done"))
    await there_are(connection, 51, "status = 'REPLAYED'")
    assert await count(connection, "status = 'REPLAYING'") == 49
    assert sum(state == "SENT" for _, state, _ in await items(connection)) == 49
    await stop(frozen)


async def stop(part: RelayProcess) -> None:
    part.signal(signal.SIGTERM)
    assert await part.ended() == 0, part.log.read_text()


async def all_answered(connection: asyncpg.Connection) -> bool:
    return all(state == "ANSWERED" for _, state, _ in await items(connection))


async def every_answer_counts_once(connection: asyncpg.Connection) -> None:
    assert await all_answered(connection)
    assert await count(connection, "status = 'REPLAYED'") == 50
    assert await count(connection, "status = 'OPEN'") == 50


async def every_letter_counts_once(connection: asyncpg.Connection) -> None:
    assert await count(connection) == 100
    assert await count(connection, "deaths = 2 AND replays = 1") == 50
    assert await count(connection, "deaths = 1 AND replays = 0") == 50
    assert await connection.fetchval("SELECT sum(open) FROM surefoot.dlq_groups") == 100
