"""An HTTP server that alerts are posted to. It keeps each post."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.support.waiting import LONG_ENOUGH_S


@dataclass(frozen=True, slots=True)
class Post:
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class AlertReceiver:
    """Refuses the first `failures` posts, and counts the connections."""

    failures: int = 0
    url: str = ""
    posts: asyncio.Queue[Post] = field(default_factory=asyncio.Queue)
    connections: int = 0

    async def next_post(self) -> Post:
        return await asyncio.wait_for(self.posts.get(), LONG_ENOUGH_S)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")[1:-2]
                headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head)}
                self.posts.put_nowait(Post(headers, await reader.readexactly(int(headers["content-length"]))))
                self.failures -= 1
                status = b"500 No" if self.failures >= 0 else b"200 OK"
                writer.write(b"HTTP/1.1 " + status + b"\r\ncontent-length: 0\r\n\r\n")
        except asyncio.IncompleteReadError:
            writer.close()


@asynccontextmanager
async def alert_receiver() -> AsyncIterator[AlertReceiver]:
    receiver = AlertReceiver()
    server = await asyncio.start_server(receiver.serve, "127.0.0.1", 0)
    receiver.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/alerts"
    try:
        yield receiver
    finally:
        server.close()
