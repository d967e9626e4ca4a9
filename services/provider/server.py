"""The simulated provider as a process: its books, its HTTP server, and their end."""

import socket
import sys

import typer
import uvicorn

from services.provider.app import Desk, create_app
from services.provider.behaviour import Shares
from services.provider.ledger import Ledger
from services.tables import create_tables
from surefoot.cli.process import serve
from surefoot.database.connection import create_pool
from surefoot.http.listening import url_of
from surefoot.http.server import Server

CONNECTIONS = 16
GOODBYE_S = 2


async def serve_provider(url: str, shares: Shares, listener: socket.socket) -> None:
    await create_tables(url, "provider")
    pool = await create_pool(url, name="surefoot provider", size=CONNECTIONS)
    try:
        ledger = Ledger(pool)
        desk = Desk(ledger, await ledger.rules(), shares.rules())
        await serve(_Service(desk, listener))
    finally:
        await pool.close()


class _Server(Server):
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listener in sockets or []:
            typer.echo(f"The provider is at {url_of(listener)} (Ctrl-C stops it)")
        sys.stdout.flush()


class _Service:
    def __init__(self, desk: Desk, listener: socket.socket) -> None:
        self._desk = desk
        self._listener = listener
        config = uvicorn.Config(
            create_app(desk),
            lifespan="off",
            access_log=False,
            log_config=None,
            timeout_graceful_shutdown=GOODBYE_S,
        )
        self._server = _Server(config)

    async def run(self) -> None:
        await self._server.serve(sockets=[self._listener])

    def stop(self) -> None:
        self._desk.stopping.set()
        self._server.should_exit = True
