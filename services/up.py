"""`surefoot up`: the whole platform on this machine, on an embedded database that is kept, until Ctrl-C."""

import asyncio
import signal
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from services.buyers.buyers import Buyers
from services.buyers.wishes import stock
from services.children import Child
from services.platform import Platform
from surefoot.commands.running import run
from surefoot.database.connection import connect
from surefoot.database.embedded import EmbeddedPostgres

console = Console(highlight=False, soft_wrap=True)
RESTART_PAUSE_S = 1.0
ENVIRONMENT = {"SUREFOOT_CONSUMER_CONCURRENCY": "2"}


def up(
    directory: Annotated[Path, typer.Option(help="Where the embedded database is kept.")] = Path(".surefoot"),
    relays: Annotated[int, typer.Option(min=1, max=8, help="How many relays to run.")] = 1,
    port: Annotated[int, typer.Option(min=1, max=65534, help="Where the shop's front doors are served.")] = 8000,
    sagas_port: Annotated[int, typer.Option(min=1, max=65534, help="Where the sagas are served.")] = 8080,
) -> None:
    """Run the platform on an embedded PostgreSQL until Ctrl-C: relay, orchestrator, the reference services and their
    front doors, a simulated payment provider. What is in it is still there the next time."""
    server = EmbeddedPostgres(directory.resolve() / "postgres", options={"max_connections": "300"})
    url = server.start()
    try:
        run(_serve(url, directory.resolve(), relays, port, sagas_port))
    finally:
        server.stop()
        console.print("Stopped. The data is kept in " + str(directory))


async def _serve(url: str, directory: Path, relays: int, port: int, sagas_port: int) -> None:
    stopping = asyncio.Event()
    for one in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(one, stopping.set)
    platform = Platform(url, directory, environment=ENVIRONMENT)
    await platform.prepare()
    await _open_shop(platform)
    where = ("--database", url)
    for number in range(2, relays + 1):
        platform.commands[f"relay-{number}"] = platform.commands["relay"]
    platform.commands["doors"] = ("services", "doors", "--port", str(port), *where)
    platform.commands["sagas"] = ("saga", "serve", "--port", str(sagas_port), *where)
    _say(url, directory, port, sagas_port)
    async with asyncio.TaskGroup() as group:
        for name in platform.commands:
            group.create_task(_keep_running(platform, name, stopping))


async def _open_shop(platform: Platform) -> None:
    """Fill the shelves, the first time."""
    connection = await connect(platform.settings.database_of("warehouse"), name="surefoot up")
    is_empty = await connection.fetchval("SELECT NOT EXISTS (SELECT FROM warehouse.stock)")
    await connection.close()
    if is_empty:
        buyers = Buyers(platform.settings)
        await buyers.fill_shelves(stock())
        await buyers.close()


def _say(url: str, directory: Path, port: int, sagas_port: int) -> None:
    console.print("[bold green]Surefoot is up.[/] Ctrl-C stops it.\n")
    console.print(f"  database     {url}", markup=False)
    console.print(f"  the shop     http://127.0.0.1:{port}/checkout/sessions", markup=False)
    console.print(f"  its sagas    http://127.0.0.1:{sagas_port}/sagas (and /docs)", markup=False)
    console.print(f"  logs         {directory}/*.log", markup=False)
    console.print("\nIn another terminal:\n")
    console.print(f"  export SUREFOOT_DATABASE='{url}'", markup=False)
    console.print("  surefoot doctor\n  surefoot saga list\n  surefoot tail order.events", markup=False)
    console.print("  surefoot outbox list\n  surefoot services check", markup=False)


async def _keep_running(platform: Platform, name: str, stopping: asyncio.Event) -> None:
    """Run it; start it again if it ends by itself."""
    waiting = asyncio.create_task(stopping.wait())
    while not stopping.is_set():
        child: Child = await platform.start(name)
        ended = asyncio.create_task(child.process.wait())
        await asyncio.wait({waiting, ended}, return_when=asyncio.FIRST_COMPLETED)
        if stopping.is_set():
            await child.stop()
        else:
            console.print(
                f"{name} ended with code {child.process.returncode}; starting it again (see {child.log})", markup=False
            )
            await asyncio.wait({waiting}, timeout=RESTART_PAUSE_S)
