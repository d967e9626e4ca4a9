"""`surefoot demo`: the main job, on this machine alone, in about half a minute.

Services commit rows with events, relays publish them, one relay is killed on the way, a reader prints what arrives; at
the end Postgres's own commit order is compared with what lies in the log.
"""

import asyncio
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from sqlalchemy.ext.asyncio import create_async_engine

from schemas import catalogue
from services import children
from services.demo.shop import Shop
from services.demo.watch import Watch
from surefoot.commands.event_log import event_log
from surefoot.commands.running import run
from surefoot.commands.tail import line_of
from surefoot.commands.topics import declared
from surefoot.database.connection import sqlalchemy_url
from surefoot.database.embedded import EmbeddedPostgres
from surefoot.database.migrate import migrate
from surefoot.database.schema import DEFAULT_SCHEMA
from surefoot.errors import SurefootError
from surefoot.log.port import StoredRecord
from surefoot.testing.checkers import Finding, check_all

console = Console(highlight=False, soft_wrap=True)
SHOW_EVERY = 150
PUBLISH_TIMEOUT_S = 90
# Short leases, so that the audience need not wait for the take-over.
RELAY_ENVIRONMENT = {
    "SUREFOOT_RELAY_LEASE": "PT3S",
    "SUREFOOT_RELAY_HEARTBEAT": "PT0.5S",
    "SUREFOOT_RELAY_LOCK_TIMEOUT": "PT1S",
}


@dataclass(frozen=True, slots=True)
class Size:
    orders: int
    relays: int


def demo(
    orders: Annotated[int, typer.Option(min=1, max=100_000, help="Orders to take; each is five events.")] = 600,
    relays: Annotated[int, typer.Option(min=2, max=8, help="Relays to start; one is killed on the way.")] = 3,
) -> None:
    """Watch events flow on an embedded database: nothing is lost, doubled in effect or out of order. Ends by itself."""
    directory = Path(tempfile.mkdtemp(prefix="surefoot-demo-"))
    directory.chmod(0o755)  # Postgres will not run as root, and the user it runs as has to get in
    server = EmbeddedPostgres(directory, options={"track_commit_timestamp": "on"})
    try:
        console.print("Starting an embedded PostgreSQL and making the tables and topics …")
        url = server.start()
        well = run(_run(url, directory, Size(orders, relays)))
    finally:
        server.stop()
        shutil.rmtree(directory, ignore_errors=True)
    raise typer.Exit(0 if well else 1)


async def _run(url: str, directory: Path, size: Size) -> bool:
    await migrate(url)
    engine = create_async_engine(sqlalchemy_url(url), pool_size=16)
    shop = Shop(engine)
    await shop.open()
    relays: list[children.Child] = []
    try:
        async with event_log(None, url, DEFAULT_SCHEMA) as log:
            specs = declared(catalogue)
            await log.create(specs)
            relays = [await _start_relay(number, url, directory) for number in range(1, size.relays + 1)]
            watch = Watch(_shower())
            following = asyncio.create_task(watch.follow(log, [spec.name for spec in specs]))
            try:
                await _trade(shop, watch, relays, size)
                await _wait_for_publication(shop, watch, following)
            finally:
                following.cancel()
                with suppress(asyncio.CancelledError, BaseExceptionGroup):
                    await following
            findings = check_all(await shop.committed(), watch.seen)
    finally:
        for relay in relays:
            await relay.stop()
        await engine.dispose()
    _report(shop, watch, findings)
    return not findings


async def _start_relay(number: int, url: str, directory: Path) -> children.Child:
    name = f"relay-{number}"
    log = directory / f"{name}.log"
    child = await children.start(name, "relay", "--database", url, log=log, environment=RELAY_ENVIRONMENT)
    console.print(f"[bold green]{name}[/] started as process {child.pid}")
    return child


async def _trade(shop: Shop, watch: Watch, relays: list[children.Child], size: Size) -> None:
    """Take the orders; kill a relay when a third are done."""
    trading = asyncio.create_task(shop.trade(size.orders, clerks=12, pause_s=0.12))
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    killed = False
    with Progress(*columns, console=console, transient=True) as progress:
        taken = progress.add_task("orders taken", total=size.orders)
        arrived = progress.add_task("events in the log", total=size.orders * 5)
        while not trading.done():
            await asyncio.wait({trading}, timeout=0.2)
            progress.update(taken, completed=shop.counts.orders)
            progress.update(arrived, completed=len(watch.distinct))
            if not killed and shop.counts.orders * 3 >= size.orders:
                killed = True
                relays[0].kill()
                console.print(f"[bold red]{relays[0].name} killed[/] (SIGKILL); the others take over its shards")
    await trading


async def _wait_for_publication(shop: Shop, watch: Watch, following: asyncio.Task[None]) -> None:
    deadline = asyncio.get_running_loop().time() + PUBLISH_TIMEOUT_S
    while len(watch.distinct) < shop.counts.committed and asyncio.get_running_loop().time() < deadline:
        if following.done():
            following.result()
            raise SurefootError("The reader ended before all events had arrived.")
        await asyncio.sleep(0.1)


def _shower() -> Callable[[StoredRecord], None]:
    count = 0

    def show(record: StoredRecord) -> None:
        nonlocal count
        if count % SHOW_EVERY == 0:
            console.print(f"  [dim]{record.topic}[/]  {line_of(record)[: max(20, console.width - 24)]}")
        count += 1

    return show


def _report(shop: Shop, watch: Watch, findings: list[Finding]) -> None:
    table = Table(title="What was committed, and what is in the log", show_header=False)
    table.add_row("events committed", f"{shop.counts.committed:,}")
    table.add_row("events rolled back with their transaction", f"{shop.counts.rolled_back:,}")
    table.add_row("distinct events in the log", f"{len(watch.distinct):,}")
    table.add_row("repeats (a consumer drops them by their id)", f"{len(watch.seen) - len(watch.distinct):,}")
    for violation, words in {
        "lost": "lost",
        "invented": "published though rolled back",
        "out_of_order": "keys out of commit order",
        "split_key": "keys in two partitions",
    }.items():
        count = sum(finding.violation == violation for finding in findings)
        table.add_row(words, f"[bold {'red' if count else 'green'}]{count}[/]")
    console.print(table)
    for finding in findings[:10]:
        console.print(f"[red]✗[/] {finding.sentence}")
    if not findings:
        console.print(
            "[bold green]✓[/] Nothing was lost, nothing was invented, every key is in the order of its commits."
        )
