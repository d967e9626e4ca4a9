"""What the relay is measured beside: the textbook worker, and a producer that only sends."""

import asyncio
import time

import asyncpg
import orjson
from aiokafka import AIOKafkaProducer

from bench.ground import PARTITIONS, Ground, topic
from surefoot.outbox.entry import Entry


async def textbook(where: Ground, rows: int) -> float:
    """Rows per second of the usual worker: 100 rows FOR UPDATE SKIP LOCKED, one send and one update each, again at
    once."""
    producer = AIOKafkaProducer(bootstrap_servers=where.kafka, acks="all", enable_idempotence=True)
    await producer.start()
    connection = await asyncpg.connect(where.url)
    try:
        done = 0
        began = time.perf_counter()
        while done < rows:
            async with connection.transaction():
                batch = await connection.fetch(
                    "SELECT event_id, key, key_hash, body, headers FROM surefoot.outbox_events "
                    "WHERE status = 'PENDING' "
                    "ORDER BY shard, position LIMIT 100 FOR UPDATE SKIP LOCKED"
                )
                for row in batch:
                    headers = [(name, value.encode()) for name, value in orjson.loads(row["headers"])]
                    await producer.send_and_wait(
                        topic.name,
                        row["body"],
                        key=row["key"].encode(),
                        headers=headers,
                        partition=row["key_hash"] % PARTITIONS,
                    )
                    await connection.execute(
                        "UPDATE surefoot.outbox_events SET status = 'PUBLISHED', published_at = now() "
                        "WHERE event_id = $1",
                        row["event_id"],
                    )
            done += len(batch)
        return done / (time.perf_counter() - began)
    finally:
        await connection.close()
        await producer.stop()


async def bare_producer(kafka: str, rows: list[Entry]) -> float:
    """Records per second of `send` alone, for the same bytes: no database, no order to keep, nothing to mark."""
    records = [
        (
            entry.key.encode(),
            entry.body,
            [*((name, value.encode()) for name, value in orjson.loads(entry.headers)), ("ce_sequence", b"%020d" % n)],
        )
        for n, entry in enumerate(rows)
    ]
    producer = AIOKafkaProducer(bootstrap_servers=kafka, acks="all")
    await producer.start()
    try:
        await producer.send_and_wait(topic.name, b"warm")
        began = time.perf_counter()
        futures = [await producer.send(topic.name, value, key=key, headers=headers) for key, value, headers in records]
        await asyncio.gather(*futures)
        return len(records) / (time.perf_counter() - began)
    finally:
        await producer.stop()
