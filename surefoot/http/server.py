"""An HTTP app as a service that can be stopped."""

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp

GOODBYE_S = 5
KEEP_ALIVE_S = 75
"""Longer than clients and load balancers keep an idle connection (a minute is usual), so that they close it first: a
request that is on its way when the server closes is lost."""


class Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, when_started: Callable[[], None]) -> None:
        super().__init__(config)
        self._when_started = when_started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._when_started()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are ours to take: uvicorn would raise them once more after it has ended."""
        yield


class HttpService:
    """Serves the app at a socket that is bound already, until it is stopped. Then requests under way have `goodbye_s`
    seconds. `when_started` is called when it answers."""

    def __init__(
        self,
        app: ASGIApp,
        listener: socket.socket,
        *,
        goodbye_s: int = GOODBYE_S,
        when_started: Callable[[], None] = lambda: None,
    ) -> None:
        self._listener = listener
        config = uvicorn.Config(
            app,
            lifespan="on",
            access_log=False,
            log_config=None,
            server_header=False,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=goodbye_s,
        )
        self._server = Server(config, when_started)

    @property
    def has_started(self) -> bool:
        return self._server.started

    async def run(self) -> None:
        await self._server.serve(sockets=[self._listener])

    def stop(self) -> None:
        self._server.should_exit = True
