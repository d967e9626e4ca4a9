"""What the consumer runtime is measured beside, each as a process that works off a topic and prints its rate.

`textbook` is the idempotent consumer of the books: look, insert, run the handler and commit for each event, then commit
its offset. Its handler is ours, line by line: the same row added to the same kind of session. `textbook_lean` is the
same loop stripped as far as it goes: statements on a bare asyncpg connection, offsets committed once for each poll.
`bare_batch` is what a careful engineer writes by hand when that is too slow: in bulk, with nothing for failures, order,
fences or types.
"""

import time
from collections.abc import Awaitable, Callable
from typing import Annotated, Any

import asyncpg
import orjson
import typer
import uvloop
from aiokafka import AIOKafkaConsumer
from sqlalchemy import Table, and_, insert, select
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from bench.consume_tables import PlacedRow
from surefoot.database.address import sqlalchemy_url
from surefoot.database.tables import processed_events

Step = Callable[[Any, Any, str], Awaitable[int]]
"""Poll once, work off what came, commit: how many records it was."""

SEEN = "SELECT 1 FROM surefoot.processed_events WHERE event_id = $1 AND consumer = $2 AND source = $3"
MARK = (
    "INSERT INTO surefoot.processed_events (event_id, consumer, source, outcome) "
    "VALUES ($1, $2, $3, 'PROCESSED'::surefoot.inbox_outcome)"
)
PLACE = "INSERT INTO placed (event_id, order_id, customer_id, minor_units, note) VALUES ($1, $2, $3, $4, $5)"
MARK_ALL = (
    "INSERT INTO surefoot.processed_events (consumer, source, event_id, outcome) "
    "SELECT $1, source, event_id, 'PROCESSED'::surefoot.inbox_outcome "
    "FROM unnest($2::text[], $3::text[]) AS batch (source, event_id) "
    "ON CONFLICT DO NOTHING RETURNING source, event_id"
)
PLACE_ALL = (
    "INSERT INTO placed (event_id, order_id, customer_id, minor_units, note) "
    "SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::text[])"
)


async def textbook(kafka: Any, engine: Any, name: str) -> int:
    record = await kafka.getone()
    headers = dict(record.headers)
    event_id, source = headers["ce_id"].decode(), headers["ce_source"].decode()
    seen: Table = processed_events
    mine = and_(seen.c.event_id == event_id, seen.c.consumer == name, seen.c.source == source)
    async with AsyncSession(engine) as session, session.begin():
        if (await session.execute(select(seen.c.event_id).where(mine))).one_or_none() is None:
            mark = {"event_id": event_id, "consumer": name, "source": source, "outcome": "PROCESSED"}
            await session.execute(insert(seen).values(mark))
            body = orjson.loads(record.value)
            row = PlacedRow(
                event_id=event_id,
                order_id=body["order_id"],
                customer_id=body["customer_id"],
                minor_units=body["total"]["minor_units"],
                note=body["note"],
            )
            session.add(row)
    await kafka.commit()
    return 1


async def textbook_lean(kafka: Any, database: Any, name: str) -> int:
    found = await kafka.getmany(timeout_ms=1000, max_records=500)
    for records in found.values():
        for record in records:
            headers = dict(record.headers)
            event_id, source = headers["ce_id"].decode(), headers["ce_source"].decode()
            async with database.transaction():
                if await database.fetchval(SEEN, event_id, name, source) is None:
                    await database.execute(MARK, event_id, name, source)
                    body = orjson.loads(record.value)
                    units = body["total"]["minor_units"]
                    await database.execute(PLACE, event_id, body["order_id"], body["customer_id"], units, body["note"])
    if found:
        await kafka.commit()
    return sum(map(len, found.values()))


async def bare_batch(kafka: Any, database: Any, name: str) -> int:
    found = await kafka.getmany(timeout_ms=1000, max_records=2000)
    if not found:
        return 0
    batch: dict[tuple[str, str], Any] = {}
    for records in found.values():
        for record in records:
            headers = dict(record.headers)
            batch[headers["ce_source"].decode(), headers["ce_id"].decode()] = orjson.loads(record.value)
    sources, ids = zip(*batch, strict=True)
    async with database.transaction():
        fresh = [(row[1], batch[row[0], row[1]]) for row in await database.fetch(MARK_ALL, name, sources, ids)]
        await database.execute(
            PLACE_ALL,
            [event_id for event_id, _ in fresh],
            [body["order_id"] for _, body in fresh],
            [body["customer_id"] for _, body in fresh],
            [body["total"]["minor_units"] for _, body in fresh],
            [body["note"] for _, body in fresh],
        )
    await kafka.commit()
    return sum(map(len, found.values()))


BASELINES: dict[str, Step] = {"textbook": textbook, "textbook_lean": textbook_lean, "bare_batch": bare_batch}


async def rate(step: Step, *, kafka: str, database: str, topic: str, name: str, warm: int, events: int) -> float:
    """Events per second, from the first `warm` on until there were `events`."""
    engine = create_async_engine(sqlalchemy_url(database))
    connection: Any = engine if step is textbook else await asyncpg.connect(database)
    consumer = AIOKafkaConsumer(
        topic, bootstrap_servers=kafka, group_id=name, enable_auto_commit=False, auto_offset_reset="earliest"
    )
    await consumer.start()
    try:
        done = 0
        while done < warm:
            done += await step(consumer, connection, name)
        began, left = time.perf_counter(), events - done
        while done < events:
            done += await step(consumer, connection, name)
        return left / (time.perf_counter() - began)
    finally:
        await consumer.stop()
        await engine.dispose()
        if connection is not engine:
            await connection.close()


def main(
    baseline: Annotated[str, typer.Argument(help=f"One of {', '.join(BASELINES)}.")],
    kafka: Annotated[str, typer.Option()],
    database: Annotated[str, typer.Option()],
    topic: Annotated[str, typer.Option()],
    name: Annotated[str, typer.Option(help="The consumer's name and Kafka group.")],
    warm: Annotated[int, typer.Option(help="Events before the clock starts.")],
    events: Annotated[int, typer.Option(help="All events in the topic.")],
) -> None:
    """Work off a topic that holds so many events; print the events per second."""
    work = rate(BASELINES[baseline], kafka=kafka, database=database, topic=topic, name=name, warm=warm, events=events)
    typer.echo(f"{uvloop.run(work):.1f}")


if __name__ == "__main__":
    typer.run(main)
