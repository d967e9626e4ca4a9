"""The inbox forgets what is past its retention, in small batches; what is not settled stays, however old."""

from datetime import timedelta

import asyncpg
import pytest

from surefoot.consumer import Consumer
from surefoot.consumer_runtime import housekeeping
from surefoot.log.postgres.log import PostgresLog
from tests.support.consumer.effects import have_effect
from tests.support.consumer.processes import consumer_running
from tests.support.event_types import ThingHappened, things
from tests.support.waiting import eventually

NEEDED = timedelta(days=30 + 14)
"""The dead letters of `things` are kept for 30 days, and may be replayed for 14 more; the topic itself is shorter."""


def warehouse() -> Consumer:
    assert things.retention < timedelta(days=30) == things.dead_letters.retention
    consumer = Consumer("warehouse")
    consumer.on(ThingHappened)(have_effect)
    return consumer


async def remember(
    connection: asyncpg.Connection, outcome: str, age: timedelta, count: int = 1, consumer: str = "warehouse"
) -> None:
    await connection.execute(
        """INSERT INTO surefoot.processed_events (consumer, source, event_id, outcome, processed_at)
           SELECT $4, '/tests', gen_random_uuid()::text, $1::text::surefoot.inbox_outcome, now() - $2::interval
           FROM generate_series(1, $3) AS n""",
        outcome,
        age,
        count,
        consumer,
    )


async def remembered(connection: asyncpg.Connection, consumer: str = "warehouse") -> dict[str, int]:
    rows = await connection.fetch(
        "SELECT outcome::text, count(*) FROM surefoot.processed_events WHERE consumer = $1 GROUP BY 1", consumer
    )
    return {row[0]: row[1] for row in rows}


async def test_what_is_settled_and_old_goes_and_what_is_parked_or_dead_stays(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    old, young = NEEDED + timedelta(hours=1), NEEDED - timedelta(hours=1)
    for outcome in ("PROCESSED", "DISCARDED", "SUPERSEDED", "BARRED", "PARKED", "DEAD"):
        await remember(connection, outcome, old)
    await remember(connection, "PROCESSED", young, 3)
    await remember(connection, "PROCESSED", old, consumer="billing")

    async with consumer_running(warehouse(), database_url, log, retention=timedelta(seconds=1)):

        async def is_gone() -> bool:
            return "DISCARDED" not in await remembered(connection)

        await eventually(is_gone, what="what is old goes")
        kept = {"PROCESSED": 3, "PARKED": 1, "DEAD": 1}

        async def only_these() -> bool:
            return await remembered(connection) == kept

        await eventually(only_these, what="only these stay")
    assert await remembered(connection, "billing") == {"PROCESSED": 1}


async def test_it_goes_in_batches_and_all_of_it_in_one_round(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(housekeeping, "DELETE_ROWS", 10)
    await connection.execute(
        """CREATE TABLE deletes (rows bigint);
           CREATE FUNCTION note_delete() RETURNS trigger LANGUAGE plpgsql AS
               $$ BEGIN INSERT INTO deletes SELECT count(*) FROM gone; RETURN NULL; END $$;
           CREATE TRIGGER note AFTER DELETE ON surefoot.processed_events REFERENCING OLD TABLE AS gone
               FOR EACH STATEMENT EXECUTE FUNCTION note_delete()"""
    )
    await remember(connection, "PROCESSED", NEEDED + timedelta(days=1), 35)
    async with consumer_running(warehouse(), database_url, log, retention=timedelta(seconds=1)):

        async def all_gone() -> bool:
            return await remembered(connection) == {}

        await eventually(all_gone, what="all are gone")
    rows = [row[0] for row in await connection.fetch("SELECT rows FROM deletes WHERE rows > 0")]
    assert rows == [10, 10, 10, 5]


async def test_the_replies_kept_for_commands_go_at_the_same_age(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    await connection.execute(
        """INSERT INTO surefoot.command_barriers (saga_id, step, direction, consumer, settled_at)
           VALUES ('old', 's', 'do', 'warehouse', now() - $1::interval),
                  ('young', 's', 'do', 'warehouse', now() - $2::interval),
                  ('other', 's', 'do', 'billing', now() - $1::interval)""",
        NEEDED + timedelta(hours=1),
        NEEDED - timedelta(hours=1),
    )

    async def left() -> list[str]:
        rows = await connection.fetch("SELECT saga_id FROM surefoot.command_barriers ORDER BY 1")
        return [row[0] for row in rows]

    async def old_is_gone() -> bool:
        return "old" not in await left()

    async with consumer_running(warehouse(), database_url, log, retention=timedelta(seconds=1)):
        await eventually(old_is_gone, what="the old one goes")
    assert await left() == ["other", "young"]
