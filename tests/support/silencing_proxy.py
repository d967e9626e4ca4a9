"""A way to a server that can fall silent: connections stay open, and nothing comes through any more."""

import asyncio
import contextlib
from typing import Self
from urllib.parse import urlsplit, urlunsplit


class SilencingProxy:
    def __init__(self, url: str) -> None:
        self._parts = urlsplit(url)
        self._silenced: set[asyncio.Event] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        """The server's URL, by way of us."""
        user = self._parts.netloc.rpartition("@")[0]
        return urlunsplit(self._parts._replace(netloc=f"{user}@127.0.0.1:{self._port}"))

    def silence(self) -> None:
        """From now on nothing passes on the connections there are; new ones work."""
        for silenced in self._silenced:
            silenced.set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        silenced = asyncio.Event()
        self._silenced.add(silenced)
        far_reader, far_writer = await asyncio.open_connection(self._parts.hostname, self._parts.port)
        for source, target in ((reader, far_writer), (far_reader, writer)):
            task = asyncio.create_task(self._pass_on(source, target, silenced))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pass_on(
        self, source: asyncio.StreamReader, target: asyncio.StreamWriter, silenced: asyncio.Event
    ) -> None:
        try:
            with contextlib.suppress(ConnectionError):
                while data := await source.read(65536):
                    if not silenced.is_set():
                        target.write(data)
                        await target.drain()
        finally:
            target.close()
