"""An HTTP app as a service that can be stopped."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp

GOODBYE_S = 5


class Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are ours to take: uvicorn would raise them once more after it has ended."""
        yield


class HttpService:
    """Serves the app at a socket that listens already, until it is stopped. Then requests under way have `goodbye_s`
    seconds."""

    def __init__(self, app: ASGIApp, listener: socket.socket, *, goodbye_s: int = GOODBYE_S) -> None:
        self._listener = listener
        self._server = Server(
            uvicorn.Config(
                app,
                lifespan="on",
                access_log=False,
                log_config=None,
                server_header=False,
                timeout_graceful_shutdown=goodbye_s,
            )
        )

    @property
    def has_started(self) -> bool:
        return self._server.started

    async def run(self) -> None:
        await self._server.serve(sockets=[self._listener])

    def stop(self) -> None:
        self._server.should_exit = True
