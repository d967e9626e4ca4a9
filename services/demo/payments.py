"""The fourth act: the same charge, sent again and again. Five times at once; and once more after the API was killed
between the provider's taking the money and our hearing of it. Then the provider's books and the ledger are read.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import httpx
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from services.checks import charges, ledger
from services.local_platform.keys import local_payments
from services.local_platform.platform import Platform, free_port
from surefoot.client import Answer, Client, Patience, new_key
from surefoot.database.connection import Connection, connect

AT_ONCE = 5
CHARGES = 2
PATIENCE_S = 60
LOOK_S = 0.02
SHOWN = 15
"""Characters of an id."""
PRICE = {"amount": {"minor_units": 1999, "currency": "EUR"}, "description": "A pair of shoes"}
SLOW = {"match": {"share": 1}, "behaviour": "late", "delay_ms": 3_000}
# Short leases, so that the audience need not wait for the take-over.
ENVIRONMENT = {
    "SUREFOOT_IDEMPOTENCY_LEASE": "PT1S",
    "SUREFOOT_IDEMPOTENCY_RENEW_EVERY": "PT0.3S",
    "SUREFOOT_IDEMPOTENCY_GRACE": "PT0.2S",
    "SUREFOOT_IDEMPOTENCY_COMPLETE_EVERY": "PT0.2S",
}
_AT_PROVIDER = "SELECT count(*) FROM provider.charges WHERE status = 'CAPTURED'"
_LINES = "SELECT count(*) FROM ledger.entries WHERE account_id = 'local/main-EUR'"
_PUBLISHED = """
    SELECT count(*) FROM surefoot.outbox_events WHERE event_type = 'charge.captured' AND status = 'PUBLISHED'"""


@dataclass(frozen=True, slots=True)
class Ended:
    sent: int = 0
    answers: tuple[int, ...] = ()
    """Different answers, for each charge."""
    at_provider: int = 0
    lines: int = 0
    """On the ledger."""
    published: int = 0
    findings: Sequence[str] = ()
    in_time: bool = True

    @property
    def is_well(self) -> bool:
        counted = (self.at_provider, self.lines, self.published)
        one_each = self.answers == (1,) * CHARGES
        return self.in_time and one_each and counted == (CHARGES,) * 3 and not self.findings


async def play(url: str, directory: Path, console: Console) -> Ended:
    scene = _Scene(url, directory, console)
    connection = None
    try:
        async with asyncio.timeout(PATIENCE_S):
            await scene.open()
            connection = await connect(url, name="surefoot demo")
            return await _tell(scene, connection, console)
    except TimeoutError:
        console.print(f"[red]Not all of it was done within {PATIENCE_S} s.[/]")
        return Ended(in_time=False)
    finally:
        await scene.close()
        if connection is not None:
            await connection.close()


async def _tell(scene: "_Scene", connection: Connection, console: Console) -> Ended:
    console.print(f"A charge of 19.99 EUR is sent [bold]{AT_ONCE} times at once[/], under one Idempotency-Key:")
    at_once = await scene.send_at_once(new_key())
    console.print(_table(at_once))
    key = new_key()
    await scene.kill_within(key, connection)
    answer = await scene.send_until_answered(key)
    again = [answer, *[await scene.send_until_answered(key) for _ in range(2)]]
    console.print(_table(again))
    await _until(connection, f"SELECT ({_PUBLISHED}) >= 2")
    found = await charges.check(scene.platform.settings), await ledger.check(scene.platform.url)
    return Ended(
        sent=1 + sum(answer.attempts for answer in (*at_once, *again)),
        answers=(_distinct(at_once), _distinct(again)),
        at_provider=await connection.fetchval(_AT_PROVIDER),
        lines=await connection.fetchval(_LINES),
        published=await connection.fetchval(_PUBLISHED),
        findings=[finding.sentence for one in found for finding in one],
    )


class _Scene:
    """The processes of the act, and whoever pays."""

    def __init__(self, url: str, directory: Path, console: Console) -> None:
        place = directory / "payments"
        place.mkdir()
        self._console = console
        self._local = local_payments(place)
        self.platform = Platform(url, place, environment=ENVIRONMENT)
        self._port = free_port()
        self.platform.serve_payments(self._port, self._local.environment)
        headers = {"Authorization": f"Bearer {self._local.key.read_text().strip()}"}
        at, patience = f"http://127.0.0.1:{self._port}", Patience(attempts=50, base=timedelta(milliseconds=100))
        self._client = Client(at, headers=headers, patience=patience)

    async def open(self) -> None:
        await self.platform.prepare()
        for name in ("provider", "relay", "payments"):
            await self._start(name)

    async def send_until_answered(self, key: str) -> Answer:
        """As the client of the library does: the same bytes under the same key, until there is an answer."""
        return await self._client.post("/v1/charges", json=PRICE, key=key)

    async def send_at_once(self, key: str) -> list[Answer]:
        return await asyncio.gather(*(self.send_until_answered(key) for _ in range(AT_ONCE)))

    async def kill_within(self, key: str, connection: Connection) -> None:
        """The provider has taken the money, and whoever asked it to never hears of it."""
        at_provider = f"http://127.0.0.1:{self.platform.provider_port}"
        async with httpx.AsyncClient(base_url=at_provider, trust_env=False) as provider:
            (await provider.post("/behaviour", json=SLOW)).raise_for_status()
        taken = await connection.fetchval(_AT_PROVIDER)
        sending = asyncio.create_task(self._client.post("/v1/charges", json=PRICE, key=key))
        await _until(connection, f"SELECT ({_AT_PROVIDER}) > {taken}")
        await self.platform.kill("payments")
        sending.cancel()
        await asyncio.wait({sending})
        self._console.print(
            "Another charge: the provider has taken the money, and [bold red]payments was killed[/] (SIGKILL) before "
            "it heard of it"
        )
        await self._start("payments")
        self._console.print(
            "The same request is sent again, under the same key, until it is answered; then twice more:"
        )

    async def _start(self, name: str) -> None:
        child = await self.platform.start(name)
        self._console.print(f"[bold green]{name}[/] started as process {child.pid}")
        if name == "payments":
            await _listening(self._port)

    async def close(self) -> None:
        await self._client.close()
        await self.platform.stop_all()


def _table(answers: Sequence[Answer]) -> Table:
    table = Table("request", "status", "charge", "answer")
    for number, answer in enumerate(answers, start=1):
        told = "the same bytes again" if answer.replayed else "new"
        table.add_row(str(number), str(answer.status), str(answer.json().get("id"))[:SHOWN] + "…", told)
    return table


def _distinct(answers: Sequence[Answer]) -> int:
    return len({(answer.status, answer.body) for answer in answers})


async def _listening(port: int) -> None:
    """Until somebody takes calls there: those that come to nobody are not worth counting."""
    while True:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except ConnectionError:
            await asyncio.sleep(LOOK_S)
        else:
            writer.close()
            return


async def _until(connection: Connection, question: str) -> None:
    while True:
        if await connection.fetchval(question):
            return
        await asyncio.sleep(LOOK_S)


def show(ended: Ended, console: Console) -> None:
    table = Table(title="Two charges", show_header=False)
    table.add_row("requests sent", f"{ended.sent}", end_section=True)
    table.add_row("different answers to them", _well(sum(ended.answers)))
    table.add_row("charges at the provider", _well(ended.at_provider))
    table.add_row("lines on the ledger", _well(ended.lines))
    table.add_row("events published", _well(ended.published))
    console.print(table)
    for finding in ended.findings:
        console.print(f"[red]✗[/] {escape(finding)}")
    if ended.is_well:
        console.print("[bold green]✓[/] However often it was sent, and whoever died: each charge was taken once.")
    else:
        console.print("[bold red]✗[/] A charge was taken twice or not at all, or was answered in two ways.")


def _well(count: int) -> str:
    return f"[bold {'green' if count == CHARGES else 'red'}]{count}[/]"
