"""A TCP proxy before a server: a test can cut the connections, mend the way, or make the connections silent."""

import asyncio
import contextlib
from typing import Self
from urllib.parse import urlsplit, urlunsplit


class Proxy:
    """Passes bytes between its clients and the server of a URL.

    A connection that is cut breaks at once. A silent connection stays open, and passes no byte on.
    """

    def __init__(self, url: str) -> None:
        self._parts = urlsplit(url)
        self._is_cut = False
        self._writers: set[asyncio.StreamWriter] = set()
        self._silent: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        """The URL of the server, with the address of the proxy in it."""
        user, at, _ = self._parts.netloc.rpartition("@")
        return urlunsplit(self._parts._replace(netloc=f"{user}{at}127.0.0.1:{self._port}"))

    def cut(self) -> None:
        """Break all connections, and new ones as soon as they are made."""
        self._is_cut = True
        for writer in list(self._writers):
            writer.transport.abort()

    def mend(self) -> None:
        """Let new connections through again."""
        self._is_cut = False

    def silence(self) -> None:
        """Pass nothing on any more on the connections there are. New connections work."""
        self._silent |= self._writers

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
        await self._server.wait_closed()

    async def _connected(self, reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        if self._is_cut:
            client.transport.abort()
            return
        self._writers.add(client)
        answers, server = await asyncio.open_connection(self._parts.hostname, self._parts.port)
        self._writers.add(server)
        for source, target in ((reader, server), (answers, client)):
            task = asyncio.create_task(self._pass_on(source, target, client))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pass_on(
        self, source: asyncio.StreamReader, target: asyncio.StreamWriter, client: asyncio.StreamWriter
    ) -> None:
        try:
            with contextlib.suppress(OSError):
                while data := await source.read(65536):
                    if client not in self._silent:
                        target.write(data)
                        await target.drain()
        finally:
            target.close()
            self._writers.discard(target)
