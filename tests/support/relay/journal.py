"""What the crash tests stand on: writers that keep a journal, and a trigger that records who wrote which row.

The journal is the test's own table; Postgres's commit timestamps say in which order its transactions committed. The
trigger compares the writer's name with the owner of the shard at that moment. Neither knows how the relay works.
"""

import asyncio
import random
from uuid import UUID

import asyncpg

from surefoot import outbox
from surefoot.testing.checkers import Committed, Mark
from tests.support.event_types import ThingHappened

SCHEMA = """
    CREATE TABLE journal (event_id uuid PRIMARY KEY, key text NOT NULL, n int NOT NULL);
    CREATE TABLE marks (position bigint NOT NULL, writer text NOT NULL, owner text);
    CREATE FUNCTION note_mark() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO marks SELECT NEW.position, current_setting('application_name'),
            (SELECT owner FROM surefoot.leases WHERE scope = 'outbox' AND unit = NEW.shard);
        RETURN NEW;
    END $$;
    CREATE TRIGGER note_mark AFTER UPDATE ON surefoot.outbox_events FOR EACH ROW EXECUTE FUNCTION note_mark();
"""


async def lay(connection: asyncpg.Connection) -> None:
    await connection.execute(SCHEMA)


async def write(connection: asyncpg.Connection, *keys: str) -> list[str]:
    """One transaction with an event for each key, journalled in the same transaction."""
    async with outbox.transaction(connection) as tx:
        rows = []
        for n, key in enumerate(keys):
            event = tx.add(ThingHappened(thing_id=key, number=n))
            rows.append((UUID(event.id), key, n))
        await connection.executemany("INSERT INTO journal VALUES ($1, $2, $3)", rows)
    return [str(event_id) for event_id, _, _ in rows]


async def write_many(url: str, *, events: int, keys: int, writers: int, seed: int) -> None:
    """Concurrent writers; some transactions carry several keys, in random order; some roll back."""
    chance = random.Random(seed)
    sizes: list[int] = []
    while sum(sizes) < events:
        sizes.append(min(chance.choice([1, 1, 1, 2, 5, 20]), events - sum(sizes)))
    batches = iter([[f"key-{chance.randrange(keys)}" for _ in range(size)] for size in sizes])

    async def writer() -> None:
        connection = await asyncpg.connect(url)
        try:
            for batch in batches:
                if chance.random() < 0.05:
                    await roll_back(connection, batch)
                await write(connection, *batch)
        finally:
            await connection.close()

    async with asyncio.TaskGroup() as group:
        for _ in range(writers):
            group.create_task(writer())


async def roll_back(connection: asyncpg.Connection, keys: list[str]) -> None:
    try:
        async with outbox.transaction(connection) as tx:
            for key in keys:
                tx.add(ThingHappened(thing_id=key, note="never"))
            await connection.execute("SELECT 1 / 0")
    except asyncpg.DivisionByZeroError:
        return


async def committed(connection: asyncpg.Connection) -> list[Committed]:
    rows = await connection.fetch("SELECT event_id, key, n, pg_xact_commit_timestamp(xmin) AS at FROM journal")
    return [Committed(str(row["event_id"]), row["key"], (row["at"], row["n"])) for row in rows]


async def marks(connection: asyncpg.Connection) -> list[Mark]:
    rows = await connection.fetch("SELECT position, writer, owner FROM marks")
    return [Mark(row["position"], row["writer"], row["owner"]) for row in rows]


async def all_published(connection: asyncpg.Connection) -> bool:
    return not await connection.fetchval(
        "SELECT EXISTS (SELECT FROM surefoot.outbox_events WHERE status <> 'PUBLISHED')"
    )
