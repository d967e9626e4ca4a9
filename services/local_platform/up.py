"""`surefoot up`: the whole platform on this machine, on an embedded database that is kept, until Ctrl-C."""

import signal
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from surefoot.cli.command import run
from surefoot.errors import ConfigurationError, SurefootError
from surefoot.http.listening import listening

if TYPE_CHECKING:
    from asyncio import Event

    from services.local_platform.platform import Child, Platform

console = Console(highlight=False, soft_wrap=True)
RESTART_PAUSE_S = 1.0
HOST = "127.0.0.1"
EXIT_NOT_UP = 2
CHARGE = (
    'curl $PAYMENTS/v1/charges -H "Authorization: Bearer $PAYMENTS_KEY" -H "Idempotency-Key: $(uuidgen)" '
    """--json '{"amount": {"minor_units": 1999, "currency": "EUR"}}'"""
)


class NotUp(SurefootError):
    """A part of the platform cannot be run, and starting it again would not help."""


@dataclass(frozen=True, slots=True)
class Port:
    number: int
    refusal: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Kept:
    """Files that whoever runs it alone can read."""

    token: Path
    payments_key: Path


def up(
    directory: Annotated[Path, typer.Option(help="Where the embedded database is kept.")] = Path(".surefoot"),
    relays: Annotated[int, typer.Option(min=1, max=8, help="How many relays to run.")] = 1,
    port: Annotated[int, typer.Option(min=1, max=65534, help="Where the shop's front doors are served.")] = 8000,
    sagas_port: Annotated[int, typer.Option(min=1, max=65534, help="Where the sagas are served.")] = 8080,
    dlq_port: Annotated[int, typer.Option(min=1, max=65534, help="Where the dead letters are served.")] = 8090,
    payments_port: Annotated[int, typer.Option(min=1, max=65534, help="Where payments are taken.")] = 8070,
) -> None:
    """Run the platform on an embedded PostgreSQL until Ctrl-C: relay, orchestrator, dead-letter service, the reference
    services and their front doors, the payments API, a simulated payment provider. What is in it is still there the
    next time.

    Exit codes: 0 stopped, 2 a port is taken, or the database or a process cannot be started.
    """
    ports = {
        "doors": Port(port, "The shop's front doors cannot be opened", "Choose another port with --port."),
        "sagas": Port(sagas_port, "The sagas cannot be served", "Choose another port with --sagas-port."),
        "dlq": Port(dlq_port, "The dead letters cannot be served", "Choose another port with --dlq-port."),
        "payments": Port(payments_port, "Payments cannot be served", "Choose another port with --payments-port."),
    }
    refused: list[str] = []
    try:
        _refuse_taken(ports.values())
        _run(directory, relays, ports)
    except* NotUp as group:
        refused = _sentences(group)
    if refused:
        Console(stderr=True, highlight=False, soft_wrap=True).print(refused[0], markup=False, style="red")
        raise typer.Exit(EXIT_NOT_UP)


def _run(directory: Path, relays: int, ports: Mapping[str, Port]) -> None:
    from surefoot.database.embedded import EmbeddedPostgres

    server = EmbeddedPostgres(directory.resolve() / "postgres", options={"max_connections": "300"})
    url = server.start()
    try:
        run(_serve(url, directory.resolve(), relays, ports))
    finally:
        server.stop()
        console.print("Stopped. The data is kept in " + str(directory))


async def _serve(url: str, directory: Path, relays: int, ports: Mapping[str, Port]) -> None:
    import asyncio

    from services.local_platform.keys import local_payments, local_token
    from services.local_platform.platform import Platform

    stopping = asyncio.Event()
    for one in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(one, stopping.set)
    platform = Platform(url, directory)
    await platform.prepare()
    await _open_shop(platform)
    where = ("--database", url)
    for number in range(2, relays + 1):
        platform.commands[f"relay-{number}"] = platform.commands["relay"]
    platform.commands["doors"] = ("surefoot", "services", "doors", "--port", str(ports["doors"].number), *where)
    platform.commands["sagas"] = ("surefoot", "saga", "serve", "--port", str(ports["sagas"].number), *where)
    platform.serve_dead_letters(ports["dlq"].number)
    payments = local_payments(directory)
    platform.serve_payments(ports["payments"].number, payments.environment)
    _say(url, directory, Kept(await local_token(url, directory), payments.key), ports)
    provider = Port(
        platform.provider_port, "The provider cannot be served", "Start again: another port is chosen then."
    )
    ports = {**ports, "provider": provider}
    try:
        async with asyncio.TaskGroup() as group:
            for name in platform.commands:
                group.create_task(_keep_running(platform, name, ports.get(name), stopping))
    finally:
        await platform.stop_all()  # also if one of them could not be started


async def _open_shop(platform: "Platform") -> None:
    """Fill the shelves, the first time."""
    from services.buyers import Buyers, stock
    from surefoot.database.connection import connect

    connection = await connect(platform.settings.database_of("warehouse"), name="surefoot up")
    is_empty = await connection.fetchval("SELECT NOT EXISTS (SELECT FROM warehouse.stock)")
    await connection.close()
    if is_empty:
        buyers = Buyers(platform.settings)
        await buyers.fill_shelves(stock())
        await buyers.close()


def _say(url: str, directory: Path, kept: Kept, ports: Mapping[str, Port]) -> None:
    dlq = f"http://{HOST}:{ports['dlq'].number}"
    console.print("[bold green]Surefoot is up.[/] Ctrl-C stops it.\n")
    console.print(f"  database     {url}", markup=False)
    console.print(f"  the shop     http://{HOST}:{ports['doors'].number}/checkout/sessions", markup=False)
    console.print(f"  its sagas    http://{HOST}:{ports['sagas'].number}/sagas (and /docs)", markup=False)
    console.print(f"  dead letters {dlq}/admin/dlq/groups", markup=False)
    payments = f"http://{HOST}:{ports['payments'].number}"
    console.print(f"  payments     {payments}/v1/charges (and /docs)", markup=False)
    console.print(f"  logs         {directory}/*.log", markup=False)
    console.print("\nIn another terminal:\n")
    console.print(f"  export SUREFOOT_DATABASE='{url}'", markup=False)
    console.print(f"  export SUREFOOT_DLQ_URL={dlq} SUREFOOT_DLQ_TOKEN=$(cat '{kept.token}')", markup=False)
    console.print(f"  export PAYMENTS={payments} PAYMENTS_KEY=$(cat '{kept.payments_key}')", markup=False)
    console.print("  surefoot doctor\n  surefoot saga list\n  surefoot tail order.events", markup=False)
    console.print("  surefoot dlq groups", markup=False)
    console.print(f"  {CHARGE}", markup=False)
    console.print("  surefoot outbox list\n  surefoot services check", markup=False)


async def _keep_running(platform: "Platform", name: str, port: Port | None, stopping: "Event") -> None:
    """Run it; start it again if it ends by itself, unless another process has its port by now."""
    import asyncio

    waiting = asyncio.create_task(stopping.wait())
    while not stopping.is_set():
        _refuse_taken([] if port is None else [port])
        child = await _start(platform, name)
        ended = asyncio.create_task(child.process.wait())
        await asyncio.wait({waiting, ended}, return_when=asyncio.FIRST_COMPLETED)
        if not stopping.is_set():
            console.print(
                f"{name} ended with code {child.process.returncode}; starting it again (see {child.log})", markup=False
            )
            await asyncio.wait({waiting}, timeout=RESTART_PAUSE_S)


async def _start(platform: "Platform", name: str) -> "Child":
    try:
        return await platform.start(name)
    except OSError as error:
        raise NotUp(f"{name} cannot be started, or its log {platform.log_of(name)} not be written: {error}.") from error


def _refuse_taken(ports: Iterable[Port]) -> None:
    """All at once, so that one that is asked for twice is noticed too."""
    with ExitStack() as taken:
        for port in ports:
            try:
                taken.enter_context(listening(HOST, port.number, refusal=port.refusal, remedy=port.remedy))
            except ConfigurationError as error:
                raise NotUp(str(error)) from error


def _sentences(group: BaseExceptionGroup[NotUp]) -> list[str]:
    return [
        sentence
        for error in group.exceptions
        for sentence in (_sentences(error) if isinstance(error, BaseExceptionGroup) else [str(error)])
    ]
