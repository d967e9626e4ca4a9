"""The demo's first act: services commit rows with events, relays publish them, consumers act on them.

A relay and a consumer are killed on the way, and one event cannot be handled. A reader prints what arrives. At the end
Postgres's own commit order is compared with what lies in the log, and the effects are counted.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from sqlalchemy.ext.asyncio import create_async_engine

from schemas import catalogue
from services.demo.outcome import Outcome
from services.demo.shop import Shop
from services.demo.trouble import Trouble
from services.demo.watch import Watch
from services.local_platform import children
from surefoot.cli.event_log import event_log
from surefoot.cli.record_line import line_of
from surefoot.cli.topics import declared
from surefoot.database.connection import sqlalchemy_url
from surefoot.database.migrate import migrate
from surefoot.database.schema import DEFAULT_SCHEMA
from surefoot.errors import SurefootError
from surefoot.log.port import EventLog, StoredRecord
from surefoot.testing.checkers import check_all

SHOW_EVERY = 150
PATIENCE_S = 150
EVENTS_PER_ORDER = 5
DOMAINS = ("order", "payment", "warehouse", "shipping")
DEAD_LETTERS = "order.events.dlq"
WAREHOUSE = "services.demo.warehouse:warehouse"
# Short leases, so that the audience need not wait for the take-over.
ENVIRONMENT = {
    "SUREFOOT_RELAY_LEASE": "PT3S",
    "SUREFOOT_RELAY_HEARTBEAT": "PT0.5S",
    "SUREFOOT_RELAY_LOCK_TIMEOUT": "PT1S",
    "SUREFOOT_LOG_LEASE": "PT3S",
}


@dataclass(frozen=True, slots=True)
class Size:
    orders: int
    relays: int


@dataclass(frozen=True, slots=True)
class _Scene:
    url: str
    directory: Path
    console: Console


async def play(url: str, directory: Path, size: Size, console: Console) -> Outcome:
    await migrate(url)
    engine = create_async_engine(sqlalchemy_url(url), pool_size=16)
    shop, trouble = Shop(engine), Trouble(engine, console)
    await shop.open()
    scene = _Scene(url, directory, console)
    running: list[children.Child] = []
    try:
        async with event_log(None, url, DEFAULT_SCHEMA) as log:
            await log.create(declared(catalogue))
            running += [await _start(scene, f"relay-{n}", "relay") for n in range(1, size.relays + 1)]
            running += [await _start(scene, f"consumer-{n}", "consume", WAREHOUSE) for n in (1, 2)]
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


async def _start(scene: _Scene, name: str, *command: str) -> children.Child:
    log = scene.directory / f"{name}.log"
    child = await children.start(name, *command, "--database", scene.url, log=log, environment=ENVIRONMENT)
    scene.console.print(f"[bold green]{name}[/] started as process {child.pid}")
    return child


async def _trade(shop: Shop, watch: Watch, running: list[children.Child], size: Size, console: Console) -> None:
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
