"""Answers count from SENT alone: with that taken out, a later one rewrites what was settled."""

import asyncpg
import pytest

from surefoot.dlq.jobs.outcomes import OutcomeStatements
from surefoot.log.postgres.log import PostgresLog
from tests.support.dlq.decisions import weaken
from tests.support.dlq.outcomes import asked, items, letters_in, say
from tests.support.dlq.service import all_read, outcomes_running
from tests.support.evidence import removed


@pytest.mark.parametrize(("weakened", "expected"), [(False, "done"), (True, "failed_again")])
async def test_a_second_answer_rewrites_the_first_only_if_it_need_not_be_awaited(
    weakened: bool,
    expected: str,
    database_url: str,
    connection: asyncpg.Connection,
    log: PostgresLog,
    topic: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if weakened:
        removed("dlq.awaited_answer")
        weaken(monkeypatch, OutcomeStatements, "awaited", " AND i.state = 'SENT'", "")
        weaken(monkeypatch, OutcomeStatements, "answer", " AND i.state = 'SENT'", "")
    await letters_in(connection, database_url, log, "e-1")
    job = await asked(connection, "replay", "e-1")
    for answer in ("done", "failed_again"):
        await say(log, job.answer(0, answer))
        async with outcomes_running(database_url, log):
            await all_read(log, "dlq.outcomes", group="dlq.outcomes")
    assert await items(connection) == [(1, "ANSWERED", expected)]


@pytest.mark.parametrize(("weakened", "expected"), [(False, "CANCELLED"), (True, "ANSWERED")])
async def test_an_answer_brings_back_what_was_cancelled_only_if_it_need_not_be_awaited(
    weakened: bool,
    expected: str,
    database_url: str,
    connection: asyncpg.Connection,
    log: PostgresLog,
    topic: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if weakened:
        removed("dlq.awaited_answer")
        weaken(monkeypatch, OutcomeStatements, "awaited", " AND i.state = 'SENT'", "")
        weaken(monkeypatch, OutcomeStatements, "answer", " AND i.state = 'SENT'", "")
    await letters_in(connection, database_url, log, "e-1")
    job = await asked(connection, "replay", "e-1")
    await connection.execute("UPDATE surefoot.dlq_job_items SET state = 'CANCELLED'")
    await say(log, job.answer(0, "done"))
    async with outcomes_running(database_url, log):
        await all_read(log, "dlq.outcomes", group="dlq.outcomes")
    assert [one[1] for one in await items(connection)] == [expected]
