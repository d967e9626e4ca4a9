"""Requests byte by byte, for what an HTTP client would not send: broken ones, halves, and callers who leave."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from tests.blackbox.idempotency.asking import Ask
from tests.blackbox.idempotency.server import Server


@dataclass(frozen=True, slots=True)
class Line:
    """An open connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def say(self, *parts: bytes) -> None:
        for part in parts:
            self.writer.write(part)
        await self.writer.drain()

    async def status(self, within_s: float) -> int:
        """Of the answer; 400 if the server hangs up without one, which refuses the request as well."""
        async with asyncio.timeout(within_s):
            first = await self.reader.readline()
        return int(first.split()[1]) if first else 400


@asynccontextmanager
async def dialled(server: Server) -> AsyncIterator[Line]:
    reader, writer = await asyncio.open_connection(*server.address)
    try:
        yield Line(reader, writer)
    finally:
        writer.close()
        try:
            await writer.wait_closed()
        except ConnectionError:
            return  # the server hung up first


def head(server: Server, ask: Ask, *more: tuple[bytes, bytes]) -> bytes:
    """Request line and headers, without those that say how long the body is unless they are in `more`."""
    url = ask.path + (f"?{ask.query}" if ask.query else "")
    host, port = server.address
    lines = [(b"Host", f"{host}:{port}".encode()), *server.headers(ask), *more]
    return b"".join(
        [
            f"{ask.method} {url} HTTP/1.1\r\n".encode(),
            *(name + b": " + value + b"\r\n" for name, value in lines),
            b"\r\n",
        ]
    )


def sized(content: bytes) -> tuple[bytes, bytes]:
    return b"Content-Length", str(len(content)).encode()


CHUNKED = (b"Transfer-Encoding", b"chunked")


def chunks(parts: Iterable[bytes]) -> bytes:
    return b"".join(f"{len(part):x}\r\n".encode() + part + b"\r\n" for part in parts) + b"0\r\n\r\n"
