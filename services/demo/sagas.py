"""The second act: the whole platform. Buyers place orders and give goods back; a provider declines, answers late,
breaks after charging; deliveries are repeated; processes are killed. At the end money and stock are counted.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.table import Table

from services.buyers import Buyers, Seen, Wish, stock, wishes
from services.checks import contradictions
from services.local_platform.platform import Platform
from services.settings import ServiceSettings
from surefoot.cli.process import event_log
from surefoot.database.connection import Connection, connect
from surefoot.database.schema import DEFAULT_SCHEMA
from surefoot.log.port import EventLog, Record, TopicPartition

PATIENCE_S = 240
CLERKS = 24
LOOKS = 8
_NOT_ASKED_FOR = """
    SELECT count(*) FROM returns.bought b WHERE confirmed AND order_id = ANY ($1::text[])
    AND NOT EXISTS (SELECT FROM returns.returns r WHERE r.order_id = b.order_id)"""
REPEATED = ("order.events", "warehouse.events", "payment.events", "payment.commands", "warehouse.commands")
REPEATS_EACH = 40
PROVIDER = ("--decline=0.08", "--timeout-after-charge=0.02", "--late=0.03", "--late-ms=500", "--error=0.03")
ENVIRONMENT = {
    "SUREFOOT_RELAY_LEASE": "PT3S",
    "SUREFOOT_RELAY_HEARTBEAT": "PT0.5S",
    "SUREFOOT_RELAY_LOCK_TIMEOUT": "PT1S",
    "SUREFOOT_LOG_LEASE": "PT3S",
    "SUREFOOT_PAYMENT_ANSWER_WITHIN": "PT1S",
}
"""Short leases and timeouts, so that the audience need not wait for a take-over."""
STATUSES = ("RUNNING", "COMPENSATING", "COMPLETED", "COMPENSATED", "FAILED", "STUCK")
COLOURS = {"COMPLETED": "green", "COMPENSATED": "yellow", "FAILED": "yellow", "STUCK": "red"}
_SAGAS = "SELECT saga_type, status::text, count(*) FROM surefoot.saga_instances GROUP BY 1, 2"
_ORDERS = "SELECT mode, status, count(*) FROM orders.orders GROUP BY 1, 2"
_UNSENT = "SELECT count(*) FROM surefoot.outbox_events WHERE status = 'PENDING'"
_PARKED = "SELECT count(*) FROM surefoot.parked_events"


@dataclass(frozen=True, slots=True)
class Counts:
    """How everything stands now."""

    sagas: dict[str, dict[str, int]] = field(default_factory=dict)
    orders: dict[str, dict[str, int]] = field(default_factory=dict)
    unsent: int = 0
    parked: int = 0

    def of(self, *statuses: str) -> int:
        return sum(found.get(status, 0) for found in self.sagas.values() for status in statuses)

    @property
    def rests(self) -> bool:
        """Every saga has ended, every order of the choreography too, and nothing is on its way."""
        unpaid = ("PENDING_PAYMENT", "PAID")
        open_orders = sum(found.get(status, 0) for found in self.orders.values() for status in unpaid)
        return not (self.of("RUNNING", "COMPENSATING", "PAUSED") or open_orders or self.unsent or self.parked)


async def look(connection: Connection) -> Counts:
    sagas: dict[str, dict[str, int]] = {}
    for row in await connection.fetch(_SAGAS):
        sagas.setdefault(row[0], {})[row[1]] = row[2]
    orders: dict[str, dict[str, int]] = {}
    for row in await connection.fetch(_ORDERS):
        orders.setdefault(row[0], {})[row[1]] = row[2]
    return Counts(sagas, orders, await connection.fetchval(_UNSENT), await connection.fetchval(_PARKED))


def board(counts: Counts, seen: Seen, wanted: int) -> Table:
    table = Table(title="Sagas by state")
    table.add_column("saga")
    for status in STATUSES:
        table.add_column(status.lower(), justify="right", style=COLOURS.get(status))
    for saga_type in ("order_placement", "return_processing"):
        found = counts.sagas.get(saga_type, {})
        table.add_row(saga_type, *(f"{found.get(status, 0):,}" for status in STATUSES))
    driven = counts.orders.get("choreographed", {})
    underway = driven.get("PENDING_PAYMENT", 0) + driven.get("PAID", 0)
    done, undone = driven.get("PROCESSING", 0), driven.get("CANCELLED", 0)
    table.add_row("orders without a saga", f"{underway:,}", "", f"{done:,}", f"{undone:,}", "", "")
    table.caption = (
        f"{len(seen.placed):,} of {wanted:,} orders placed, {seen.turned_away} turned away at checkout, "
        f"{seen.returns} returns, {seen.pickups} parcels fetched"
    )
    return table


@dataclass(frozen=True, slots=True)
class Ended:
    counts: Counts
    seen: Seen
    repeats: int
    kills: int
    findings: Sequence[str]
    in_time: bool

    @property
    def is_well(self) -> bool:
        return self.in_time and not self.findings and self.counts.rests and not self.counts.of("STUCK")


async def play(url: str, directory: Path, orders: int, console: Console) -> Ended:
    platform = Platform(url, directory, environment=ENVIRONMENT, provider=PROVIDER)
    await platform.prepare()
    buyers = Buyers(platform.settings)
    await buyers.fill_shelves(stock())
    connection = await connect(url, name="surefoot demo")
    try:
        await platform.start_all()
        for name, child in platform.running.items():
            console.print(f"[bold green]{name}[/] started as process {child.pid}")
        wanted = wishes(orders)
        in_time = True
        story = _Story(platform, buyers, connection, wanted, console)
        try:
            async with asyncio.timeout(PATIENCE_S):
                await story.tell()
        except TimeoutError:
            in_time = False
            console.print(f"[red]Not all of it ended within {PATIENCE_S} s.[/]")
        counts = await look(connection)
        said = await _contradictions_at_rest(platform.settings)
        return Ended(counts, buyers.seen, story.repeats, story.kills, said, in_time)
    finally:
        await platform.stop_all()
        await buyers.close()
        await connection.close()


async def _contradictions_at_rest(settings: ServiceSettings) -> list[str]:
    """Sagas end before the last event is read by everybody: the warehouse may still have to see that a parcel has left.
    What does not go away within a few seconds is none of that."""
    for _ in range(LOOKS):
        found = await contradictions(settings)
        if not found:
            break
        await asyncio.sleep(1)
    return found


class _Story:
    def __init__(
        self, platform: Platform, buyers: Buyers, connection: Connection, wanted: Sequence[Wish], console: Console
    ) -> None:
        self.repeats = self.kills = 0
        self._platform = platform
        self._buyers = buyers
        self._connection = connection
        self._wanted = wanted
        self._console = console
        self._troubles = [(1 / 4, self._repeat), (1 / 3, self._kill_orchestrator), (2 / 3, self._kill_shop)]

    async def tell(self) -> None:
        stopping = asyncio.Event()
        beside = [
            asyncio.create_task(self._buyers.give_back(stopping)),
            asyncio.create_task(self._buyers.fetch_parcels(stopping)),
        ]
        buying = asyncio.create_task(self._buy())
        try:
            await self._watch(buying)
        finally:
            stopping.set()
            for task in (*beside, buying):
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task

    async def _buy(self) -> None:
        door = asyncio.Semaphore(CLERKS)

        async def one(wish: Wish) -> None:
            async with door:
                await self._buyers.buy(wish)

        async with asyncio.TaskGroup() as group:
            for wish in self._wanted:
                group.create_task(one(wish))

    async def _watch(self, buying: asyncio.Task[None]) -> None:
        """Show the board until everything rests; make trouble on the way."""
        wanted = len(self._wanted)
        with Live(console=self._console, refresh_per_second=4, transient=True) as live:
            while True:
                counts = await look(self._connection)
                live.update(board(counts, self._buyers.seen, wanted))
                if buying.done():
                    buying.result()
                    if counts.rests and not self._troubles and await self._all_given_back():
                        return
                if self._troubles and len(self._buyers.seen.placed) >= self._troubles[0][0] * wanted:
                    await self._troubles.pop(0)[1]()
                await asyncio.sleep(0.25)

    async def _all_given_back(self) -> bool:
        """Whether every buyer who wants to give back an order that was confirmed has asked for it."""
        wanting = [order_id for order_id, wish in self._buyers.seen.placed.items() if wish.gives_back]
        return bool(await self._connection.fetchval(_NOT_ASKED_FOR, wanting) == 0)

    async def _kill_orchestrator(self) -> None:
        await self._kill("orchestrator", "its sagas stand still until it is back")

    async def _kill_shop(self) -> None:
        await self._kill("shop", "what it had begun is undone, and done again")

    async def _kill(self, name: str, meaning: str) -> None:
        await self._platform.kill(name)
        self.kills += 1
        self._console.print(f"[bold red]{name} killed[/] (SIGKILL); {meaning}")
        child = await self._platform.start(name)
        self._console.print(f"[bold green]{name}[/] started again as process {child.pid}")

    async def _repeat(self) -> None:
        async with event_log(None, self._platform.url, DEFAULT_SCHEMA) as log:
            for topic in REPEATED:
                self.repeats += await _deliver_again(log, topic, REPEATS_EACH)
        self._console.print(f"[bold yellow]{self.repeats} events delivered a second time[/]; nobody should notice")


async def _deliver_again(log: EventLog, topic: str, count: int) -> int:
    """Put the first records of a topic into it once more, byte for byte, each in its partition."""
    reader = await log.read(topic, dict.fromkeys(await log.end_offsets(topic), 0))
    try:
        found = await reader.poll(max_records=count)
    finally:
        await reader.close()
    publisher = await log.publisher()
    try:
        for where, records in found.items():
            again = [Record(record.key, record.value, record.headers) for record in records]
            await publisher.publish(TopicPartition(*where), again)
    finally:
        await publisher.close()
    return sum(map(len, found.values()))


def show(ended: Ended, console: Console) -> None:
    console.print(board(ended.counts, ended.seen, len(ended.seen.placed) + ended.seen.turned_away))
    table = Table(title="What happened, and what came of it", show_header=False)
    table.add_row("orders placed", f"{len(ended.seen.placed):,}")
    table.add_row("second clicks that made no second order", f"{ended.seen.double_clicks:,}")
    table.add_row("events delivered a second time", f"{ended.repeats:,}")
    table.add_row("processes killed", f"{ended.kills:,}")
    table.add_row("sagas stuck", _well(ended.counts.of("STUCK")))
    table.add_row("contradictions in the books of money and stock", _well(len(ended.findings)))
    console.print(table)
    for sentence in ended.findings[:10]:
        console.print(f"[red]✗[/] {sentence}", markup=True)
    if ended.is_well:
        console.print(
            "[bold green]✓[/] Every saga ended; money and stock add up to the cent and piece; nobody was charged twice."
        )


def _well(count: int) -> str:
    return f"[bold {'red' if count else 'green'}]{count:,}[/]"
