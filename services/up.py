"""`surefoot up`: the platform on this machine, on an embedded database that is kept, until Ctrl-C."""

import asyncio
import signal
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from schemas import catalogue
from services import children
from surefoot.commands.event_log import event_log
from surefoot.commands.running import run
from surefoot.commands.topics import declared
from surefoot.database.embedded import EmbeddedPostgres
from surefoot.database.migrate import migrate
from surefoot.database.schema import DEFAULT_SCHEMA

console = Console(highlight=False, soft_wrap=True)
RESTART_PAUSE_S = 1.0


def up(
    directory: Annotated[Path, typer.Option(help="Where the embedded database is kept.")] = Path(".surefoot"),
    relays: Annotated[int, typer.Option(min=1, max=8, help="How many relays to run.")] = 1,
) -> None:
    """Run the platform on an embedded PostgreSQL until Ctrl-C. What is in it is still there the next time."""
    server = EmbeddedPostgres(directory.resolve() / "postgres")
    url = server.start()
    try:
        run(_serve(url, directory.resolve(), relays))
    finally:
        server.stop()
        console.print("Stopped. The data is kept in " + str(directory))


async def _serve(url: str, directory: Path, relays: int) -> None:
    await migrate(url)
    async with event_log(None, url, DEFAULT_SCHEMA) as log:
        await log.create(declared(catalogue))
    stopping = asyncio.Event()
    for one in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(one, stopping.set)
    console.print("[bold green]Surefoot is up.[/] Ctrl-C stops it.\n")
    console.print(f"  database   {url}", markup=False)
    console.print(f"  logs       {directory}/relay-*.log", markup=False)
    console.print("\nIn another terminal:\n")
    console.print(f"  export SUREFOOT_DATABASE='{url}'", markup=False)
    console.print("  surefoot doctor\n  surefoot tail order.events\n  surefoot outbox list", markup=False)
    async with asyncio.TaskGroup() as group:
        for number in range(1, relays + 1):
            group.create_task(_keep_running(f"relay-{number}", url, directory, stopping))


async def _keep_running(name: str, url: str, directory: Path, stopping: asyncio.Event) -> None:
    """Run a relay; start it again if it ends by itself."""
    waiting = asyncio.create_task(stopping.wait())
    while not stopping.is_set():
        child = await children.start(name, "relay", "--database", url, log=directory / f"{name}.log")
        ended = asyncio.create_task(child.process.wait())
        await asyncio.wait({waiting, ended}, return_when=asyncio.FIRST_COMPLETED)
        if stopping.is_set():
            await child.stop()
        else:
            console.print(
                f"{name} ended with code {child.process.returncode}; starting it again (see {child.log})", markup=False
            )
            await asyncio.wait({waiting}, timeout=RESTART_PAUSE_S)
