"""A real HTTP server on a local port that does what a script says, request by request."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Seen:
    """A request, as it came over the wire."""

    line: str
    headers: dict[str, str]
    body: bytes
    raw: bytes


@dataclass(frozen=True, slots=True)
class Say:
    status: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Vanish:
    """The connection ends, with no answer or after so much of one."""

    after: bytes = b""


@dataclass(frozen=True, slots=True)
class Silence:
    """Nothing comes, ever."""


Step = Say | Vanish | Silence


@dataclass
class ScriptedServer:
    steps: Iterator[Step]
    url: str = ""
    seen: list[Seen] = field(default_factory=list)
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once a request is there."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while (request := await _read(reader)) is not None:
                self.seen.append(request)
                self.asked.set()
                match next(self.steps):
                    case Vanish(after):
                        writer.write(after)
                        await writer.drain()
                        return
                    case Silence():
                        await reader.read()  # until the client hangs up
                        return
                    case Say(status, body, headers):
                        lines = {"Content-Length": str(len(body)), **headers}
                        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
                        writer.write(f"HTTP/1.1 {status} X\r\n{head}\r\n".encode() + body)
                        await writer.drain()
        finally:
            writer.close()


@asynccontextmanager
async def scripted(*steps: Step) -> AsyncIterator[ScriptedServer]:
    server = ScriptedServer(iter(steps))
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    host, port = listening.sockets[0].getsockname()
    server.url = f"http://{host}:{port}"
    async with listening:
        yield server


async def _read(reader: asyncio.StreamReader) -> Seen | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionResetError):
        return None
    line, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (each.partition(":") for each in lines)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Seen(line, headers, body, head + body)
