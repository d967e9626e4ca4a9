"""What the saga bench runs on: a database with the shop's tables, and the platform's processes as users start them."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import asyncpg

from bench.saga_shop import FILL, STOCK, TABLES, placement
from schemas import catalogue
from surefoot.cli.process import event_log
from surefoot.database.embedded import EmbeddedPostgres
from surefoot.database.migrate import migrate
from surefoot.errors import SurefootError
from surefoot.events import new_event
from surefoot.log.port import TopicSpec
from surefoot.outbox.entry import entry_of
from surefoot.process_guard import create_guarded_process

HERE = Path(__file__).parent.parent
LOOK_S = 0.5
PATIENCE_S = 120.0
# The database is on the same two cores, so a second connection of a consumer has nothing to wait for: it only makes
# batches smaller. Measured: 6.6 ms of processor time for a saga instead of 8.4.
ALL_ON_TWO_CORES = {"SUREFOOT_CONSUMER_CONCURRENCY": "1"}
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass
class Shop:
    url: str
    kafka: str | None
    connection: asyncpg.Connection
    logs: Path
    orders: int = 0
    processes: dict[str, asyncio.subprocess.Process] = field(default_factory=dict)

    async def new_orders(self, count: int) -> tuple[int, int]:
        """Write orders down; the numbers of the first and the one behind the last."""
        first, self.orders = self.orders, self.orders + count
        await self.connection.copy_records_to_table(
            "bench_orders", records=[(f"order-{n}", "PENDING_PAYMENT") for n in range(first, self.orders)]
        )
        return first, self.orders

    async def request(self, first: int, end: int) -> None:
        """Ask for the placement of all of them at once: as many outbox rows, committed together."""
        entries = [entry_of(new_event(placement(f"order-{n}"))) for n in range(first, end)]
        shards = await self.connection.fetchval("SELECT shards FROM surefoot.outbox_settings")
        names = ["event_id", "shard", "key_hash", "topic", "event_type", "key", "body", "headers", "status"]
        rows = [
            (e.event_id, e.key_hash % shards, e.key_hash, e.topic, e.event_type, e.key, e.body, e.headers, "PENDING")
            for e in entries
        ]
        async with self.connection.transaction():
            await self.connection.copy_records_to_table(
                "outbox_events", schema_name="surefoot", records=rows, columns=names
            )
            await self.connection.execute("SELECT pg_notify('surefoot_outbox', '')")

    async def ended(self) -> int:
        for name, process in self.processes.items():
            if process.returncode is not None:
                said = (self.logs / f"{name}.log").read_text(errors="replace").splitlines()[-15:]
                raise SurefootError(f"{name} ended by itself. It said last:\n" + "\n".join(said))
        found = await self.connection.fetchval(
            "SELECT count(*) FROM surefoot.saga_instances WHERE ended_at IS NOT NULL AND entity_id LIKE 'order-%'"
        )
        return int(found)

    async def check(self) -> None:
        """A rate counts for nothing unless every saga did what it should: all goods and payments are accounted for."""
        ended = await self.connection.fetchrow(
            "SELECT count(*) FILTER (WHERE status = 'COMPLETED'), count(*) FILTER (WHERE status = 'COMPENSATED'), "
            "count(*) FROM surefoot.saga_instances WHERE entity_id LIKE 'order-%'"
        )
        kept = await self.connection.fetchrow(
            "SELECT (SELECT count(*) FROM bench_shipments), (SELECT sum($1::bigint - free)::bigint FROM bench_stock), "
            "(SELECT count(*) FROM bench_payments WHERE state = 'CAPTURED')",
            STOCK,
        )
        completed, undone, sagas = ended
        if completed + undone != sagas or set(kept) != {completed}:
            raise SurefootError(
                f"Of {sagas:,} sagas {completed:,} completed and {undone:,} were undone; shipped, taken and paid: "
                f"{tuple(kept)}. These should agree, so the rate says nothing."
            )

    async def warm_up(self, sagas: int) -> None:
        """Connections, prepared statements, batch sizes; and statistics, which the server makes within a minute."""
        await self.rate(sagas)
        await self.connection.execute("ANALYZE")

    async def rate(self, sagas: int) -> float:
        """Sagas per second, from the commit that asks for all of them to the commit of the last one's end."""
        before = await self.ended()
        first, end = await self.new_orders(sagas)
        began = time.time()
        await self.request(first, end)
        await self.until(before + sagas)
        last = await self.connection.fetchval(
            "SELECT max(pg_xact_commit_timestamp(xmin)) FROM surefoot.saga_instances WHERE ended_at IS NOT NULL"
        )
        return sagas / float(last.timestamp() - began)

    async def until(self, ended: int) -> None:
        deadline = time.perf_counter() + PATIENCE_S
        while await self.ended() < ended:
            if time.perf_counter() > deadline:
                raise SurefootError(f"{ended:,} sagas did not end in time: the bench cannot go on.")
            await asyncio.sleep(LOOK_S)

    def processor_s(self, postgres: EmbeddedPostgres) -> Mapping[str, float]:
        """Processor time used so far, by process."""
        used = {name: _used(process.pid) for name, process in self.processes.items()}
        pid = postgres.pid
        return {**used, "postgres": 0.0 if pid is None else sum(map(_used, [pid, *_children(pid)]))}


@asynccontextmanager
async def shop(postgres: EmbeddedPostgres, kafka: str | None, name: str, logs: Path) -> AsyncIterator[Shop]:
    admin = await asyncpg.connect(postgres.url)
    await admin.execute(f"CREATE DATABASE {name}")
    await admin.close()
    url = postgres.url.removesuffix("/postgres") + f"/{name}"
    await migrate(url)
    async with event_log(kafka, url, "surefoot") as log:
        wanted = catalogue.topics()
        await log.create([TopicSpec(t.name, t.partitions, t.retention, t.max_record_bytes) for t in wanted])
    connection = await asyncpg.connect(url)
    await connection.execute(TABLES)
    await connection.execute(FILL)
    try:
        yield Shop(url, kafka, connection, logs)
    finally:
        await connection.close()


@asynccontextmanager
async def open_for_business(where: Shop, *, profiles: Path | None = None) -> AsyncIterator[None]:
    """Relay, orchestrator and services, each a process; under Python's profiler, if there is a place for its files."""
    log = ["--kafka", where.kafka] if where.kafka else []
    database = ["--database", where.url]
    commands = {
        "relay": ["surefoot", "relay", *database, *log],
        "orchestrator": ["surefoot", "orchestrate", "bench.saga_shop:shop_saga", *database, *log],
        "services": ["bench.saga_services", where.url, *([where.kafka] if where.kafka else [])],
    }
    try:
        for name, command in commands.items():
            if profiles is not None:
                command = ["cProfile", "-o", str(profiles / f"{name}.prof"), "-m", *command]
            where.processes[name] = await _start(command, where.logs / f"{name}.log")
        yield
    finally:
        for process in where.processes.values():
            if process.returncode is None:
                process.send_signal(signal.SIGTERM)
        for process in where.processes.values():
            try:
                await asyncio.wait_for(process.wait(), 20)
            except TimeoutError:
                process.kill()
                await process.wait()
        where.processes.clear()


async def _start(command: Sequence[str], log: Path) -> asyncio.subprocess.Process:
    with log.open("ab") as output:
        return await create_guarded_process(
            sys.executable,
            "-m",
            *command,
            cwd=HERE,
            env={**os.environ, **ALL_ON_TWO_CORES},
            stdout=output,
            stderr=output,
        )


def _used(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def _children(pid: int) -> list[int]:
    try:
        return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []
