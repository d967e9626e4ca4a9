"""The third act: a bad deploy fills the dead-letter queue. The cause is seen, the fix is deployed, a canary and then
the whole group are replayed; what waited behind them ends. Then every event is accounted for.

Operators do it from a terminal, through the real service. Two orders stay dead after the fix, because they are wrong
themselves: one is edited, the other is discarded, by two people.
"""

import asyncio
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from sqlalchemy import text

from schemas import catalogue
from services.demo.labels import COUNTRIES, DEPLOY, MISTYPED, ORDERS, TEST, metadata, take_orders
from services.local_platform.platform import Child, free_port, start_child
from surefoot.cli.process import event_log
from surefoot.cli.topics import declared
from surefoot.database.connection import Connection, connect
from surefoot.database.engine import create_engine
from surefoot.database.migrate import migrate
from surefoot.database.schema import DEFAULT_SCHEMA
from surefoot.errors import SurefootError
from surefoot.process_guard import create_guarded_process
from surefoot.testing.balance import Balance, balance

DEAD = ORDERS // len(COUNTRIES) + 2
"""A bad deploy loses one country; the two wrong orders die of it, too."""
CANARY = 5
CONSUMER = "demo-labels"
HANDLERS = "services.demo.labels:labels"
PATIENCE_S = 120
LOOK_S = 0.1
ENVIRONMENT = {
    "SUREFOOT_RELAY_LEASE": "PT3S",
    "SUREFOOT_RELAY_HEARTBEAT": "PT0.5S",
    "SUREFOOT_RELAY_LOCK_TIMEOUT": "PT1S",
    "SUREFOOT_LOG_LEASE": "PT3S",
}
_WAITING = "SELECT count(*) FROM surefoot.parked_events WHERE state = 'WAITING'"
_OPEN = "SELECT count(*) FROM surefoot.dlq_events WHERE status = 'OPEN'"
_PRINTED = "SELECT count(DISTINCT order_id), count(*) - count(DISTINCT order_id) FROM labels.printed"
_AT_REST = """
    SELECT NOT EXISTS (SELECT FROM surefoot.outbox_events WHERE status = 'PENDING')
       AND NOT EXISTS (SELECT FROM surefoot.parked_events)"""


class CommandFailed(SurefootError):
    """A command of the demo could not be carried out."""


@dataclass(frozen=True, slots=True)
class Operator:
    """Somebody at a terminal."""

    name: str
    environment: dict[str, str]
    directory: Path
    console: Console

    async def types(self, *arguments: str, well: tuple[int, ...] = (0,)) -> None:
        """Give a command, and let everybody see what it says."""
        self._show(arguments)
        sys.stdout.flush()
        process = await self._start(arguments, None)
        await process.communicate()
        _check(arguments, process.returncode, b"", well)

    async def reads(self, *arguments: str) -> Any:
        """Give a command that answers with JSON."""
        return json.loads(await self.asks("dlq", *arguments, "--json"))

    async def asks(self, *arguments: str) -> str:
        """Give a command that prints one thing, to be used by the next."""
        process = await self._start(arguments, asyncio.subprocess.PIPE)
        said, complained = await process.communicate()
        _check(arguments, process.returncode, complained, (0,))
        return said.decode().strip()

    def _show(self, arguments: tuple[str, ...]) -> None:
        words = " ".join(f'"{word}"' if " " in word else word for word in arguments)
        self.console.print(f"[bold]{self.name}$[/] surefoot {words}")

    async def _start(self, arguments: tuple[str, ...], pipe: int | None) -> asyncio.subprocess.Process:
        return await create_guarded_process(
            *(sys.executable, "-m", "surefoot"),
            *arguments,
            stdout=pipe,
            stderr=pipe,
            cwd=self.directory,
            env={**os.environ, **self.environment},
        )


def _check(arguments: tuple[str, ...], code: int | None, complained: bytes, well: tuple[int, ...]) -> None:
    if code not in well:
        said = complained.decode(errors="replace").strip()
        raise CommandFailed(f"`surefoot {' '.join(arguments[:3])} …` ended with code {code}. {said}")


@dataclass(frozen=True, slots=True)
class Ended:
    balance: Balance
    wanted: int
    printed: int
    twice: int
    in_time: bool

    @property
    def is_well(self) -> bool:
        return self.in_time and self.balance.adds_up and (self.printed, self.twice) == (self.wanted, 0)


class _Scene:
    """The processes of the act."""

    def __init__(self, url: str, directory: Path, port: int, console: Console) -> None:
        self.url = url
        self.port = port
        self.console = console
        self.directory = directory
        self._running: list[Child] = []

    async def start(self, name: str, *command: str, deploy: str = "mended") -> Child:
        log = self.directory / f"letters-{name}.log"
        environment = {**ENVIRONMENT, DEPLOY: deploy}
        child = await start_child(name, *command, "--database", self.url, log=log, environment=environment)
        self._running.append(child)
        self.console.print(f"[bold green]{name}[/] started as process {child.pid}")
        return child

    async def stop_all(self) -> None:
        await asyncio.gather(*(child.stop() for child in self._running))


async def play(url: str, directory: Path, console: Console) -> Ended:
    await _prepare(url)
    scene = _Scene(url, directory, free_port(), console)
    connection = await connect(url, name="surefoot demo")
    try:
        async with asyncio.timeout(PATIENCE_S):
            await _tell(scene, connection)
        in_time = True
    except TimeoutError:
        in_time = False
        console.print(f"[red]Not all of it was done within {PATIENCE_S} s.[/]")
    finally:
        await scene.stop_all()
    try:
        async with event_log(None, url, DEFAULT_SCHEMA) as log:
            counted = await balance(connection, log, CONSUMER)
        row = await connection.fetchrow(_PRINTED)
        assert row is not None
        return Ended(counted, ORDERS + 1, row[0], row[1], in_time)
    finally:
        await connection.close()


async def _tell(scene: "_Scene", connection: Connection) -> None:
    story = _Story(connection, scene.console, await _operators(scene))
    await scene.start("relay", "outbox_publisher")
    await scene.start("dlq", "dlq", "--port", str(scene.port))
    bad = await scene.start("labels", "surefoot", "consume", HANDLERS, deploy="bad")
    await take_orders(scene.url, scene.console)
    fingerprint = await story.understand()
    await bad.stop()
    scene.console.print("[bold green]labels mended[/]: the tariff that the deploy had lost is there again")
    await scene.start("labels", "surefoot", "consume", HANDLERS)
    await story.replay(fingerprint)
    await story.settle_the_rest(fingerprint)
    await _until(connection, _AT_REST)


class _Story:
    def __init__(self, connection: Connection, console: Console, people: tuple[Operator, Operator]) -> None:
        self._connection = connection
        self._console = console
        self._ana, self._ben = people

    async def understand(self) -> str:
        """What is broken? The one group that there is."""
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, console=self._console, transient=True) as progress:
            task = progress.add_task("dead letters", total=DEAD)
            while not progress.finished:
                progress.update(task, completed=await self._connection.fetchval(_OPEN))
                await asyncio.sleep(LOOK_S)
        await _until(self._connection, f"SELECT ({_WAITING}) = {DEAD - 1}")
        self._console.print(
            f"[red]{DEAD} events are dead[/] after the deploy, {DEAD - 1} wait behind them; the other orders went on"
        )
        await self._ana.types("dlq", "groups")
        (group,) = await self._ana.reads("groups")
        return str(group["fingerprint"])

    async def replay(self, fingerprint: str) -> None:
        why = ("--reason", "the tariff for CH is there again")
        await self._ana.types("dlq", "replay", "--group", fingerprint, "--dry-run", "--follow", *why)
        canary = ("--canary", str(CANARY), "--stop-on-error-rate", "0.2")
        await self._ana.types("dlq", "replay", "--group", fingerprint, *canary, "--follow", *why, well=(0, 1))

    async def settle_the_rest(self, fingerprint: str) -> None:
        """Two are dead again: the one with a country that does not exist is edited, the other one is discarded."""
        left = await self._ana.reads("list", "--group", fingerprint, "--status", "OPEN")
        ids = {letter["key"]: letter["id"] for letter in left}
        shown = await self._ana.reads("reveal", ids[MISTYPED], "--reason", "where should it have gone?")
        edited = shown["payload"]
        edited["ship_to"]["country"] = "CH"
        self._console.print(f"[yellow]{MISTYPED}[/] goes to a country that does not exist: {self._ana.name} edits it")
        why = ("--reason", "the buyer says Switzerland")
        (self._ana.directory / "mended.json").write_bytes(orjson.dumps(edited))
        await self._ana.types("dlq", "edit", ids[MISTYPED], "--payload", "@mended.json", "--follow", *why)
        await self._ana.types("dlq", "discard", ids[TEST], "--reason", "somebody tried out the shop")
        (waiting,) = await self._ben.reads("approvals", "--status", "WAITING")
        seen = ("--set-hash", waiting["set_hash"])
        await self._ben.types("dlq", "approve", waiting["id"], *seen, "--reason", "it is a test", "--follow")


async def _prepare(url: str) -> None:
    await migrate(url)
    engine = create_engine(url, name="surefoot demo")
    async with engine.begin() as connection:
        await connection.execute(text("CREATE SCHEMA labels"))
        await connection.run_sync(metadata.create_all)
    await engine.dispose()
    async with event_log(None, url, DEFAULT_SCHEMA) as log:
        await log.create(declared(catalogue))


async def _operators(scene: _Scene) -> tuple[Operator, Operator]:
    """Ana may edit, Ben may approve what she wants to discard."""
    here = {"SUREFOOT_DLQ_URL": f"http://127.0.0.1:{scene.port}", "SUREFOOT_DATABASE": scene.url}
    nobody = Operator("", here, scene.directory, scene.console)

    async def with_role(name: str, role: str) -> Operator:
        token = await nobody.asks("dlq", "token", "create", "--person", name, "--role", role)
        return Operator(name, {**here, "SUREFOOT_DLQ_TOKEN": token}, scene.directory, scene.console)

    ana, ben = await asyncio.gather(with_role("ana", "ADMIN"), with_role("ben", "SUPER_ADMIN"))
    return ana, ben


async def _until(connection: Connection, question: str) -> None:
    while True:
        if await connection.fetchval(question):
            return
        await asyncio.sleep(LOOK_S)


def show(ended: Ended, console: Console) -> None:
    counted = ended.balance
    table = Table(title=f"The balance of events: {counted.consumer}", show_header=False)
    table.add_row("distinct events published", f"[bold]{counted.published:,}[/]")
    if counted.edited:
        table.add_row("  of them edited by an operator", f"{counted.edited:,}")
    for name in ("processed", "ignored", "barred", "parked", "dead", "superseded", "discarded"):
        table.add_row(name, f"{getattr(counted, name):,}")
    table.add_row("together", _well(counted.accounted, counted.published), end_section=True)
    table.add_row("labels printed", _well(ended.printed, ended.wanted))
    table.add_row("labels printed twice", _well(ended.twice, 0))
    console.print(table)
    if ended.is_well:
        console.print(
            "[bold green]✓[/] Every event is accounted for; every order that waited was sent, once, in its order."
        )
    else:
        console.print(
            "[bold red]✗[/] Not all of it was in time, an event is not accounted for, or a label is missing or double."
        )


def _well(count: int, expected: int) -> str:
    return f"[bold {'green' if count == expected else 'red'}]{count:,}[/]"
