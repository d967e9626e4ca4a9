"""`surefoot demo`: the main job, on this machine alone, in four acts and about three minutes.

First act: events (`services.demo.events`). Second act: sagas (`services.demo.sagas`). Third act: a bad deploy, and what
an operator does about it (`services.demo.dead_letters`). Fourth act: a charge that is sent again and again
(`services.demo.payments`).
"""

import shutil
import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from surefoot.cli.command import run

console = Console(highlight=False, soft_wrap=True)


def demo(
    orders: Annotated[
        int, typer.Option(min=1, max=100_000, help="First act: orders to take; each is five events.")
    ] = 600,
    relays: Annotated[
        int, typer.Option(min=2, max=8, help="First act: relays to start; one is killed on the way.")
    ] = 3,
    sagas: Annotated[
        int, typer.Option(min=0, max=100_000, help="Second act: orders that buyers place. 0 leaves it out.")
    ] = 300,
    letters: Annotated[bool, typer.Option(help="Third act: dead letters. --no-letters leaves it out.")] = True,
    payments: Annotated[bool, typer.Option(help="Fourth act: payments. --no-payments leaves it out.")] = True,
) -> None:
    """Watch events flow, then sagas, then a bad deploy that is mended, then a charge that is sent again and again, on
    an embedded database: nothing is lost, doubled or out of order, money and stock add up, and every event is accounted
    for. Ends by itself; the exit code is 0 if all of it held."""
    from surefoot.database.embedded import EmbeddedPostgres

    directory = Path(tempfile.mkdtemp(prefix="surefoot-demo-"))
    directory.chmod(0o755)  # Postgres will not run as root, and the user it runs as has to get in
    server = EmbeddedPostgres(directory, options={"track_commit_timestamp": "on", "max_connections": "300"})
    try:
        console.print("Starting an embedded PostgreSQL and making the tables and topics …")
        url = server.start()
        console.rule("First act: events")
        well = run(_first_act(url, directory, orders, relays))
        if sagas:
            console.rule("Second act: sagas")
            well = run(_second_act(url, directory, sagas)) and well
        if letters:
            console.rule("Third act: dead letters")
            well = run(_third_act(url, directory)) and well
        if payments:
            console.rule("Fourth act: payments")
            well = run(_fourth_act(url, directory)) and well
    finally:
        server.stop()
        shutil.rmtree(directory, ignore_errors=True)
    raise typer.Exit(0 if well else 1)


async def _first_act(url: str, directory: Path, orders: int, relays: int) -> bool:
    from services.demo.events import Size, play

    outcome = await play(url, directory, Size(orders, relays), console)
    outcome.show(console)
    return outcome.is_well


async def _second_act(url: str, directory: Path, orders: int) -> bool:
    from services.demo.sagas import play, show

    ended = await play(await _another_database(url, "sagas"), directory, orders, console)
    show(ended, console)
    return ended.is_well


async def _third_act(url: str, directory: Path) -> bool:
    from services.demo.dead_letters import play, show

    ended = await play(await _another_database(url, "letters"), directory, console)
    show(ended, console)
    return ended.is_well


async def _fourth_act(url: str, directory: Path) -> bool:
    from services.demo.payments import play, show

    ended = await play(await _another_database(url, "payments"), directory, console)
    show(ended, console)
    return ended.is_well


async def _another_database(url: str, name: str) -> str:
    """An act has its own: nothing of the others is in its books."""
    from surefoot.database.connection import connect

    connection = await connect(url, name="surefoot demo")
    await connection.execute(f"CREATE DATABASE {name}")
    await connection.close()
    return url.rpartition("/")[0] + f"/{name}"
