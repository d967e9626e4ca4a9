"""The read API as a service that can be stopped."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from orchestrator.http import api

GOODBYE_S = 5


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are ours to take: uvicorn would raise them once more after it has ended."""
        yield


class ReadApi:
    def __init__(self, url: str, schema: str, listener: socket.socket) -> None:
        self._listener = listener
        self._server = _Server(
            uvicorn.Config(
                api(url, schema),
                lifespan="on",
                access_log=False,
                log_config=None,
                timeout_graceful_shutdown=GOODBYE_S,
            )
        )

    @property
    def has_started(self) -> bool:
        return self._server.started

    async def run(self) -> None:
        await self._server.serve(sockets=[self._listener])

    def stop(self) -> None:
        self._server.should_exit = True
