"""Answers: each settles the item that waits for it, and with it the letter, once."""

import asyncpg
import pytest

from surefoot.consumer.contracts import Action, Answer
from surefoot.dlq.jobs.outcomes import Outcomes
from surefoot.events import new_event
from surefoot.log.port import Record, StoredRecord, TopicPartition
from surefoot.log.postgres.log import PostgresLog
from tests.support.consumer.processes import create_topics, publish_records, record_of
from tests.support.corpus import each_of
from tests.support.dlq.letters import letter_record, rows
from tests.support.dlq.outcomes import asked, items, letters_in, say
from tests.support.dlq.service import all_read, outcomes_running, quick
from tests.support.waiting import eventually
from tests.unit.dlq.test_settling import TABLE


async def hear(url: str, log: PostgresLog) -> None:
    """Run until every answer there is was taken."""
    async with outcomes_running(url, log):
        await all_read(log, "dlq.outcomes", group="dlq.outcomes")


@each_of(("line", "kind", "answer", "outcome", "becomes"), [(n, *row[:4]) for n, row in enumerate(TABLE)], expected=28)
async def test_each_line_of_the_table_is_what_becomes_of_the_letter(
    line: int,
    kind: Action,
    answer: Answer,
    outcome: str | None,
    becomes: str | None,
    database_url: str,
    connection: asyncpg.Connection,
    log: PostgresLog,
) -> None:
    await letters_in(connection, database_url, log, f"e-{line}", begin=line)
    job = await asked(connection, kind, f"e-{line}")
    record = record_of(new_event(job.answer(0, answer, outcome=outcome)))
    await Outcomes(database_url, log, quick()).take(connection, [StoredRecord("dlq.outcomes", 0, line, 0, *record)])

    item = await connection.fetchrow(
        "SELECT state::text, answer FROM surefoot.dlq_job_items WHERE job_id = $1::uuid", job.job_id
    )
    assert tuple(item) == ("ANSWERED", answer)
    status, resolution, resolved_at = (await rows(connection, "status", "resolution", "resolved_at"))[line]
    assert status == (becomes or "OPEN")
    assert (resolution is None) == (resolved_at is None) == (status == "OPEN")


async def test_an_answer_says_what_became_of_it_who_decided_and_why(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    await letters_in(connection, database_url, log, "e-1")
    job = await asked(connection, "replay", "e-1")
    told = record_of(new_event(job.answer(0, "done", waiting_behind=3, past_retention=True)))
    assert told.value is not None
    told = told._replace(value=told.value.replace(b"It is done.", b"Its effect\\u0000 has been had."))
    await publish_records(log, {TopicPartition("dlq.outcomes", 0): [told]})
    await hear(database_url, log)
    assert await rows(connection, "status", "resolution", "job_id::text") == [
        (
            "REPLAYED",
            "Replayed by ada: it is mended. warehouse says: done. Its effect� has been had.",
            job.job_id,
        )
    ]
    row = await connection.fetchrow(
        "SELECT sentence, waiting_behind, past_retention, answered_at IS NOT NULL FROM surefoot.dlq_job_items"
    )
    assert tuple(row) == ("Its effect� has been had.", 3, True, True)


async def test_the_resolution_of_a_discard_names_both_people(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    await letters_in(connection, database_url, log, "e-1")
    job = await asked(connection, "discard", "e-1", approved=True)
    await say(log, job.answer(0, "discarded"))
    await hear(database_url, log)
    ((status, resolution),) = await rows(connection, "status", "resolution")
    assert status == "DISCARDED"
    assert resolution.startswith("Discarded by ada, approved by grace: test data. warehouse says: discarded.")


@pytest.mark.parametrize(("answer", "by"), [("done", "new-1"), ("failed_again", "new-1"), ("refused", None)])
async def test_a_superseded_letter_says_by_which_event(
    answer: Answer, by: str | None, database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    await letters_in(connection, database_url, log, "e-1")
    job = await asked(connection, "supersede", "e-1")
    await connection.execute("UPDATE surefoot.dlq_events SET superseded_by = 'new-1'")
    await say(log, job.answer(0, answer, event_id="new-1"))
    await hear(database_url, log)
    assert await rows(connection, "status", "superseded_by") == [("SUPERSEDED" if by else "OPEN", by)]


async def test_the_first_answer_counts_and_repeats_do_nothing(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    await letters_in(connection, database_url, log, "e-1", "e-2")
    job = await asked(connection, "replay", "e-1", "e-2")
    await say(log, job.answer(0, "done"), job.answer(0, "failed_again"))
    await hear(database_url, log)
    before = await connection.fetch("SELECT * FROM surefoot.dlq_events ORDER BY id")
    await say(log, job.answer(0, "failed_again"), job.answer(0, "done", sentence="Again."))
    await hear(database_url, log)
    assert await items(connection) == [(1, "ANSWERED", "done"), (2, "SENT", None)]
    assert await connection.fetch("SELECT * FROM surefoot.dlq_events ORDER BY id") == before
    assert await rows(connection, "status") == [("REPLAYED",), ("REPLAYING",)]


async def test_an_answer_that_nobody_waits_for_is_passed_by(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    await letters_in(connection, database_url, log, "e-1", "e-2", "e-3")
    job = await asked(connection, "replay", "e-1", "e-2", "e-3")
    await connection.execute("UPDATE surefoot.dlq_job_items SET state = 'PENDING' WHERE number = 2")
    strange = "0192f0c1-7a3e-7c41-9d0a-6f1f0d6f3b11"
    await say(
        log,
        job.answer(0, "done", control_id=strange),
        job.answer(0, "done", control_id="not an id"),
        job.answer(0, "done", consumer="billing"),
        job.answer(0, "inspected", action="inspect"),
        job.answer(1, "done"),
        job.answer(2, "done"),
    )
    await hear(database_url, log)
    assert await items(connection) == [(1, "SENT", None), (2, "PENDING", None), (3, "ANSWERED", "done")]
    assert await rows(connection, "status") == [("REPLAYING",), ("REPLAYING",), ("REPLAYED",)]


async def test_a_record_that_is_no_answer_does_not_stop_the_others(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    await letters_in(connection, database_url, log, "e-1")
    job = await asked(connection, "replay", "e-1")
    good = record_of(new_event(job.answer(0, "done")))
    junk = [Record(None, None, []), Record(b"k", b"\xff", []), letter_record("e-1"), good._replace(value=b"{}")]
    await publish_records(log, {TopicPartition("dlq.outcomes", 0): [*junk, good]})
    await hear(database_url, log)
    assert await items(connection) == [(1, "ANSWERED", "done")]


async def test_an_answer_to_a_job_that_no_longer_has_the_letter_in_hand_leaves_it(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    await letters_in(connection, database_url, log, "e-1", "e-2")
    job = await asked(connection, "replay", "e-1", "e-2")
    await connection.execute("UPDATE surefoot.dlq_events SET job_id = gen_random_uuid() WHERE event_id = 'e-1'")
    await connection.execute("UPDATE surefoot.dlq_events SET status = 'DISCARDED' WHERE event_id = 'e-2'")
    await say(log, job.answer(0, "done"), job.answer(1, "done"))
    await hear(database_url, log)
    assert await items(connection) == [(1, "ANSWERED", "done"), (2, "ANSWERED", "done")]
    assert await rows(connection, "event_id", "status") == [("e-1", "REPLAYING"), ("e-2", "DISCARDED")]


async def test_a_dry_run_hears_its_answer_also_if_the_letter_is_gone(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    await letters_in(connection, database_url, log, "e-1")
    job = await asked(connection, "inspect", "e-1")
    await connection.execute("DELETE FROM surefoot.dlq_events")
    await say(log, job.answer(0, "inspected", waiting_behind=2))
    await hear(database_url, log)
    assert await items(connection) == [(1, "ANSWERED", "inspected")]


async def test_the_topic_of_answers_may_come_later(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic_name: str
) -> None:
    await letters_in(connection, database_url, log, "e-1")
    job = await asked(connection, "replay", "e-1")

    async def answered() -> bool:
        return await items(connection) == [(1, "ANSWERED", "done")]

    async with outcomes_running(database_url, log):
        await create_topics(log, "dlq.outcomes")
        await say(log, job.answer(0, "done"))
        await eventually(answered, what="the answer is taken")


async def test_a_batch_of_answers_is_one_transaction_and_settles_in_bulk(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog
) -> None:
    names = [f"e-{n}" for n in range(100)]
    await letters_in(connection, database_url, log, *names)
    job = await asked(connection, "replay", *names)
    answers = [record_of(new_event(job.answer(n, "done" if n % 2 else "failed_again"))) for n in range(100)]
    records = [StoredRecord("dlq.outcomes", 0, n, 0, *one) for n, one in enumerate(answers)]
    await Outcomes(database_url, log, quick()).take(connection, records)
    made_by = await connection.fetch(
        "SELECT xmin::text FROM surefoot.dlq_events UNION SELECT xmin::text FROM surefoot.dlq_job_items"
    )
    assert len(made_by) == 1
    (group,) = await connection.fetch("SELECT open, replaying, replayed FROM surefoot.dlq_groups")
    assert tuple(group) == (50, 0, 50)
