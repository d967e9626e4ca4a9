"""The demo's first act: services commit rows with events, relays publish them, consumers act on them.

A relay and a consumer are killed on the way, and one event cannot be handled. A reader prints what arrives. At the end
Postgres's own commit order is compared with what lies in the log, and the effects are counted.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from schemas import catalogue
from services.demo.shop import JAMMED_ORDER, Counts, Shop
from services.local_platform.platform import Child, start_child
from surefoot.cli.process import event_log
from surefoot.cli.topics import declared, line_of
from surefoot.database.engine import create_engine
from surefoot.database.migrate import migrate
from surefoot.database.schema import DEFAULT_SCHEMA
from surefoot.errors import SurefootError
from surefoot.events import decode
from surefoot.log.port import EventLog, StoredRecord
from surefoot.testing.checkers import Committed, Finding, Seen, check_all

SHOW_EVERY = 150
PATIENCE_S = 150
EVENTS_PER_ORDER = 5
DOMAINS = ("order", "payment", "warehouse", "shipping")
DEAD_LETTERS = "order.events.dlq"
WAREHOUSE = "services.demo.shop:warehouse"
# Short leases, so that the audience need not wait for the take-over.
ENVIRONMENT = {
    "SUREFOOT_RELAY_LEASE": "PT3S",
    "SUREFOOT_RELAY_HEARTBEAT": "PT0.5S",
    "SUREFOOT_RELAY_LOCK_TIMEOUT": "PT1S",
    "SUREFOOT_LOG_LEASE": "PT3S",
}
POLL = timedelta(milliseconds=200)
LOOK_S = 0.1
_HEAD = text(
    "SELECT state::text, attempts, reason FROM surefoot.parked_events WHERE key = :key ORDER BY log_offset LIMIT 1"
)
_BEHIND = text("SELECT count(*) - 1 FROM surefoot.parked_events WHERE key = :key")
_PASSED = text("SELECT count(*) FROM shop.reservations")


@dataclass(frozen=True, slots=True)
class Size:
    orders: int
    relays: int


class Watch:
    def __init__(self, show: Callable[[StoredRecord], None]) -> None:
        self.seen: list[Seen] = []
        self.distinct: set[str] = set()
        self._show = show

    async def follow(self, log: EventLog, topics: Sequence[str]) -> None:
        """Read until cancelled."""
        async with asyncio.TaskGroup() as group:
            for topic in topics:
                group.create_task(self._follow(log, topic))

    async def _follow(self, log: EventLog, topic: str) -> None:
        reader = await log.read(topic, dict.fromkeys(await log.end_offsets(topic), 0))
        try:
            while True:
                for batch in (await reader.poll(timeout=POLL)).values():
                    for record in batch:
                        self._take(record)
        finally:
            await reader.close()

    def _take(self, record: StoredRecord) -> None:
        attributes = decode(record.headers, record.value, record.key).attributes
        key = f"{record.topic}/{attributes['partitionkey']}"
        self.seen.append(Seen(attributes["id"], key, record.partition, record.offset))
        self.distinct.add(attributes["id"])
        self._show(record)


class Trouble:
    """Follows the one order that cannot be set aside, and tells of it line by line."""

    def __init__(self, engine: AsyncEngine, console: Console) -> None:
        self._engine = engine
        self._console = console
        self.passed = 0
        self.waiting_behind = 0
        self.reason: str | None = None

    async def follow(self) -> None:
        """Until it is dead and something waits behind it."""
        told = 0
        while self.reason is None or self.waiting_behind < 1:
            await asyncio.sleep(LOOK_S)
            async with self._engine.connect() as connection:
                head = (await connection.execute(_HEAD, {"key": JAMMED_ORDER})).one_or_none()
                self.waiting_behind = await connection.scalar(_BEHIND, {"key": JAMMED_ORDER}) or 0
                self.passed = await connection.scalar(_PASSED) or 0
            if head is None:
                continue
            if head.state == "DEAD":
                self.reason = head.reason
            elif head.attempts > told:
                told = head.attempts
                self._say(f"[yellow]{JAMMED_ORDER} failed[/] (attempt {told} of 3); its key waits, the others go on")
        self._say(
            f"[red]{JAMMED_ORDER} is dead[/] ({self.reason}) and in order.events.dlq; {self.waiting_behind} event "
            f"waits behind it; {self.passed} other orders have been set aside"
        )

    def _say(self, line: str) -> None:
        self._console.print(line)


@dataclass(frozen=True, slots=True)
class Outcome:
    counts: Counts
    watch: Watch
    committed: Sequence[Committed]
    findings: Sequence[Finding]
    set_aside: int
    twice: int
    letters: int
    orders: int

    @property
    def is_well(self) -> bool:
        return not self.findings and (self.set_aside, self.twice, self.letters) == (self.orders, 0, 1)

    def show(self, console: Console) -> None:
        table = Table(title="What was committed, what is in the log, what took effect", show_header=False)
        seen, distinct = len(self.watch.seen), len(self.watch.distinct)
        table.add_row("events committed", f"{len(self.committed):,}")
        table.add_row("events rolled back with their transaction", f"{self.counts.rolled_back:,}")
        table.add_row("distinct events in the log", f"{distinct:,}")
        table.add_row("repeats (a consumer drops them by their id)", f"{seen - distinct:,}")
        for violation, words in {
            "lost": "lost",
            "invented": "published though rolled back",
            "out_of_order": "keys out of commit order",
            "split_key": "keys in two partitions",
        }.items():
            _row(table, words, sum(finding.violation == violation for finding in self.findings), 0)
        _row(table, "orders the warehouse set aside", self.set_aside, self.orders)
        _row(table, "orders set aside twice", self.twice, 0)
        _row(table, "dead letters", self.letters, 1)
        console.print(table)
        for finding in self.findings[:10]:
            console.print(f"[red]✗[/] {finding.sentence}")
        if self.is_well:
            console.print(
                "[bold green]✓[/] Nothing was lost, nothing was invented, every key is in the order of its commits, "
                "every effect happened once."
            )


def _row(table: Table, words: str, count: int, expected: int) -> None:
    table.add_row(words, f"[bold {'green' if count == expected else 'red'}]{count:,}[/]")


@dataclass(frozen=True, slots=True)
class _Scene:
    url: str
    directory: Path
    console: Console


async def play(url: str, directory: Path, size: Size, console: Console) -> Outcome:
    await migrate(url)
    engine = create_engine(url, name="surefoot demo", pool_size=16)
    shop, trouble = Shop(engine), Trouble(engine, console)
    await shop.open()
    scene = _Scene(url, directory, console)
    running: list[Child] = []
    try:
        async with event_log(None, url, DEFAULT_SCHEMA) as log:
            await log.create(declared(catalogue))
            running += [await _start(scene, f"relay-{n}", "outbox_publisher") for n in range(1, size.relays + 1)]
            running += [await _start(scene, f"consumer-{n}", "surefoot", "consume", WAREHOUSE) for n in (1, 2)]
            watch = Watch(_shower(console))
            topics = [topic.name for topic in catalogue.topics() if topic.name.partition(".")[0] in DOMAINS]
            following = asyncio.create_task(watch.follow(log, [name for name in topics if not name.endswith(".dlq")]))
            try:
                async with asyncio.timeout(PATIENCE_S):
                    async with asyncio.TaskGroup() as group:
                        group.create_task(trouble.follow())
                        group.create_task(_trade(shop, watch, running, size, console))
                    await _until_all_is_done(shop, watch, log, following, size)
            except TimeoutError:
                console.print(f"[red]Not all of it was done within {PATIENCE_S} s.[/] The logs are gone with the demo.")
            finally:
                following.cancel()
                with suppress(asyncio.CancelledError, BaseExceptionGroup):
                    await following
            committed = await shop.committed()
            findings = check_all(committed, watch.seen)
            set_aside, twice = await shop.set_aside()
            letters = await _letters(log)
    finally:
        for child in running:
            await child.stop()
        await engine.dispose()
    return Outcome(shop.counts, watch, committed, findings, set_aside, twice, letters, size.orders)


async def _start(scene: _Scene, name: str, *command: str) -> Child:
    log = scene.directory / f"{name}.log"
    child = await start_child(name, *command, "--database", scene.url, log=log, environment=ENVIRONMENT)
    scene.console.print(f"[bold green]{name}[/] started as process {child.pid}")
    return child


async def _trade(shop: Shop, watch: Watch, running: list[Child], size: Size, console: Console) -> None:
    """Take the orders; kill a relay when a third are done, and a consumer when two thirds are."""
    trading = asyncio.gather(shop.trade(size.orders, clerks=12, pause_s=0.12), shop.trade_in_trouble())
    to_kill = [(1 / 3, running[0], "its shards"), (2 / 3, running[-1], "its partitions")]
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        taken = progress.add_task("orders taken", total=size.orders)
        arrived = progress.add_task("events in the log", total=size.orders * EVENTS_PER_ORDER)
        while not trading.done():
            await asyncio.wait({trading}, timeout=0.2)
            progress.update(taken, completed=shop.counts.orders)
            progress.update(arrived, completed=len(watch.distinct))
            if to_kill and shop.counts.orders >= to_kill[0][0] * size.orders:
                _, victim, left = to_kill.pop(0)
                victim.kill()
                console.print(f"[bold red]{victim.name} killed[/] (SIGKILL); the others take over {left}")
    await trading


async def _until_all_is_done(
    shop: Shop, watch: Watch, log: EventLog, following: asyncio.Task[None], size: Size
) -> None:
    """Every order set aside, every event in the log, the dead letter in its topic."""
    while True:
        if following.done():
            following.result()
            raise SurefootError("The reader ended before all events had arrived.")
        set_aside, _ = await shop.set_aside()
        if set_aside >= size.orders and len(watch.distinct) >= len(await shop.committed()) and await _letters(log):
            return
        await asyncio.sleep(0.1)


async def _letters(log: EventLog) -> int:
    return sum((await log.end_offsets(DEAD_LETTERS)).values())


def _shower(console: Console) -> Callable[[StoredRecord], None]:
    count = 0

    def show(record: StoredRecord) -> None:
        nonlocal count
        if count % SHOW_EVERY == 0:
            console.print(f"  [dim]{record.topic}[/]  {line_of(record, catalogue)[: max(20, console.width - 24)]}")
        count += 1

    return show
