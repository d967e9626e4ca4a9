"""A way to a server that can be cut, and mended again: connections break, and new ones are refused."""

import asyncio
import contextlib
from typing import Self
from urllib.parse import urlsplit, urlunsplit


class CutProxy:
    def __init__(self, url: str) -> None:
        self._parts = urlsplit(url)
        self._is_cut = False
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        """The server's URL, by way of us."""
        user = self._parts.netloc.rpartition("@")[0]
        return urlunsplit(self._parts._replace(netloc=f"{user}@127.0.0.1:{self._port}"))

    def cut(self) -> None:
        self._is_cut = True
        for writer in list(self._writers):
            writer.transport.abort()

    def mend(self) -> None:
        self._is_cut = False

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        self.cut()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_cut:
            writer.transport.abort()
            return
        there, to_there = await asyncio.open_connection(self._parts.hostname, self._parts.port)
        self._writers |= {writer, to_there}
        for source, target in ((reader, to_there), (there, writer)):
            task = asyncio.create_task(_copy(source, target))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await source.read(65536):
            target.write(data)
            await target.drain()
    target.transport.abort()
