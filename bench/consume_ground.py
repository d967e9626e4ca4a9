"""What the consumer bench runs on: empty tables, and topics filled with the very bytes that the relay would send."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from aiokafka.admin import AIOKafkaAdminClient
from sqlalchemy.ext.asyncio import create_async_engine

from bench.consume_tables import HOT_ROWS, STOCK, Base
from bench.ground import PARTITIONS, Ground
from surefoot.database.address import sqlalchemy_url
from surefoot.errors import SurefootError
from surefoot.events.event_type import Topic
from surefoot.log.kafka.log import KafkaLog
from surefoot.log.kafka.settings import KafkaSettings
from surefoot.log.port import Acknowledged, TopicSpec
from surefoot.outbox.entry import Entry
from surefoot.relay.plan import PendingRow, plan


async def prepare(where: Ground) -> None:
    engine = create_async_engine(sqlalchemy_url(where.url))
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)
    await engine.dispose()


async def clear(where: Ground) -> None:
    """The same empty tables, and no writing left over from the last run, for each."""
    await where.connection.execute(
        "TRUNCATE surefoot.processed_events, surefoot.consumer_partitions, surefoot.parked_events, placed, stock"
    )
    await where.connection.execute(f"INSERT INTO stock SELECT n, {STOCK} FROM generate_series(0, {HOT_ROWS - 1}) n")
    await where.connection.execute("CHECKPOINT")


@asynccontextmanager
async def topic_of(where: Ground, name: str) -> AsyncIterator[str]:
    """A topic that is gone afterwards."""
    kept = Topic(name, PARTITIONS)
    both = (kept, kept.dead_letters)
    log = KafkaLog(KafkaSettings(bootstrap_servers=where.kafka))
    await log.create([TopicSpec(each.name, PARTITIONS, each.retention, each.max_record_bytes) for each in both])
    await log.close()
    try:
        yield name
    finally:
        admin = AIOKafkaAdminClient(bootstrap_servers=where.kafka)
        await admin.start()
        await admin.delete_topics([each.name for each in both])
        await admin.close()


async def publish(where: Ground, topic: str, rows: Sequence[Entry]) -> None:
    """The same bytes as the relay sends, to the same partitions."""
    log = KafkaLog(KafkaSettings(bootstrap_servers=where.kafka))
    publisher = await log.publisher()
    try:
        pending = [PendingRow(n, 0, e.key_hash, topic, e.key, e.body, e.headers, 0) for n, e in enumerate(rows)]
        batches = plan(pending, {topic: await publisher.topic(topic)}).batches
        outcomes = await asyncio.gather(*(publisher.publish(at, batch.records) for at, batch in batches.items()))
    finally:
        await publisher.close()
        await log.close()
    stored = sum(outcome.count for outcome in outcomes if isinstance(outcome, Acknowledged))
    if stored != len(rows):
        raise SurefootError(f"Kafka stored {stored:,} of {len(rows):,} events: the bench cannot go on without them.")
