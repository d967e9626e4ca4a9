"""What the relay bench runs on: a Postgres, a Kafka, rows as `outbox.add` writes them, and the real relay as a
process.
"""

import asyncio
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import asyncpg

from surefoot.database.embedded import EmbeddedPostgres
from surefoot.database.migrate import migrate
from surefoot.events import Catalogue, EventData, Money, new_event
from surefoot.log.kafka.log import KafkaLog
from surefoot.log.kafka.settings import KafkaSettings
from surefoot.log.port import TopicSpec
from surefoot.outbox.entry import Entry, entry_of
from surefoot.process_guard import create_guarded_process
from surefoot.testing.kafka import find_kafka

PARTITIONS = 8
KEYS = 1000

catalogue = Catalogue(source="/bench/orders")
topic = catalogue.topic("bench.orders", partitions=PARTITIONS)


@catalogue.event("bench.order_placed", topic=topic, key="order_id")
class OrderPlaced(EventData):
    """About as large as a small order's event is."""

    order_id: str
    customer_id: str
    total: Money
    note: str


def order(number: int) -> OrderPlaced:
    return OrderPlaced(
        order_id=f"order-{number % KEYS}",
        customer_id="customer-0123456789",
        total=Money.minor(1999, "EUR"),
        note="x" * 80,
    )


def entries(count: int) -> list[Entry]:
    return [entry_of(new_event(order(number))) for number in range(count)]


@contextmanager
def servers() -> Iterator[tuple[EmbeddedPostgres, str]]:
    """A Postgres with its defaults (fsync on), and a Kafka."""
    directory = Path(tempfile.mkdtemp(prefix="surefoot-bench-"))
    directory.chmod(0o755)
    postgres = EmbeddedPostgres(directory)
    try:
        with find_kafka() as broker:
            postgres.start()
            yield postgres, broker.address
    finally:
        postgres.stop()
        shutil.rmtree(directory, ignore_errors=True)


@dataclass(slots=True)
class Ground:
    """One migrated database and a topic of its own."""

    url: str
    kafka: str
    connection: asyncpg.Connection

    async def fill(self, rows: list[Entry], *, status: str = "PENDING") -> None:
        """Store rows in one transaction, as if that many had been added."""
        records = [
            (e.event_id, e.key_hash % 8, e.key_hash, e.topic, e.event_type, e.key, e.body, e.headers, status)
            for e in rows
        ]
        names = ["event_id", "shard", "key_hash", "topic", "event_type", "key", "body", "headers", "status"]
        async with self.connection.transaction():
            if (
                status == "PUBLISHED"
            ):  # the check wants a time with it: store as pending first, in a table without readers
                records = [(*record[:-1], "PENDING") for record in records]
            await self.connection.copy_records_to_table(
                "outbox_events", schema_name="surefoot", records=records, columns=names
            )
            if status == "PUBLISHED":
                await self.connection.execute(
                    "UPDATE surefoot.outbox_events SET status = 'PUBLISHED', published_at = now() "
                    "WHERE status = 'PENDING'"
                )
            await self.connection.execute("SELECT pg_notify('surefoot_outbox', '')")

    async def drained(self) -> None:
        """Wait until nothing is PENDING."""
        statement = await self.connection.prepare(
            "SELECT EXISTS (SELECT FROM surefoot.outbox_events WHERE status = 'PENDING' AND shard = ANY "
            "('{0,1,2,3,4,5,6,7}'))"
        )
        while await statement.fetchval():  # noqa: ASYNC110  # the rows change in another process
            await asyncio.sleep(0.05)

    async def clear(self) -> None:
        await self.connection.execute("TRUNCATE surefoot.outbox_events")


@asynccontextmanager
async def ground(postgres: EmbeddedPostgres, kafka: str, name: str) -> AsyncIterator[Ground]:
    admin = await asyncpg.connect(postgres.url)
    await admin.execute(f"CREATE DATABASE {name}")
    await admin.close()
    url = postgres.url.removesuffix("/postgres") + f"/{name}"
    await migrate(url)
    log = KafkaLog(KafkaSettings(bootstrap_servers=kafka))
    await log.create([TopicSpec(topic.name, PARTITIONS, topic.retention, topic.max_record_bytes)])
    await log.close()
    connection = await asyncpg.connect(url)
    try:
        yield Ground(url, kafka, connection)
    finally:
        await connection.close()


@asynccontextmanager
async def relay(where: Ground, log: Path) -> AsyncIterator[int]:
    """The real relay, in a process of its own, ready to work; its process id."""
    with log.open("ab") as output:
        process = await create_guarded_process(
            sys.executable,
            "-m",
            "surefoot",
            "relay",
            "--database",
            where.url,
            "--kafka",
            where.kafka,
            stdout=output,
            stderr=output,
        )
    try:
        await where.fill(entries(2000))  # warm: connections, prepared statements, the producer
        await where.drained()
        yield process.pid
    finally:
        if process.returncode is None:
            os.kill(process.pid, signal.SIGTERM)
        await process.wait()


def rss_mb(pid: int) -> float:
    """Memory of a process now."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return round(int(line.split()[1]) / 1024, 1)
    return 0.0
