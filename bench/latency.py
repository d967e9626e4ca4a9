"""From the commit of a transaction to a reader of the topic, at a steady rate.

The reader's own time is in the figure.
"""

import asyncio
import time
from datetime import timedelta

import asyncpg

from bench.ground import Ground, order, topic
from surefoot import outbox
from surefoot.events import decode
from surefoot.log.kafka.log import KafkaLog
from surefoot.log.kafka.settings import KafkaSettings

WRITERS = 8


async def latencies_ms(where: Ground, *, rate: int, seconds: int) -> list[float]:
    committed: dict[str, float] = {}
    arrived: dict[str, float] = {}
    log = KafkaLog(KafkaSettings(bootstrap_servers=where.kafka))
    reader = await log.read(topic.name, await log.end_offsets(topic.name))
    total = rate * seconds

    async def read() -> None:
        while len(arrived) < total:
            for batch in (await reader.poll(timeout=timedelta(seconds=1))).values():
                now = time.perf_counter()
                for record in batch:
                    arrived.setdefault(decode(record.headers, record.value, record.key).attributes["id"], now)

    async def write(number: int, begin: float) -> None:
        connection = await asyncpg.connect(where.url)
        for n in range(number, total, WRITERS):
            await asyncio.sleep(max(0.0, begin + n / rate - time.perf_counter()))
            async with outbox.transaction(connection) as tx:
                event = tx.add(order(n))
            committed[event.id] = time.perf_counter()
        await connection.close()

    try:
        reading = asyncio.create_task(read())
        begin = time.perf_counter() + 1
        await asyncio.gather(*(write(number, begin) for number in range(WRITERS)))
        await asyncio.wait_for(reading, 60)
    finally:
        await reader.close()
        await log.close()
    return [max(0.0, (arrived[event] - at) * 1000) for event, at in committed.items()]
