"""A lean HTTP client for the bench: keep-alive connections, requests as bytes. It shares the machine with what it
measures, so the less it does the better."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass

from surefoot.errors import SurefootError


@dataclass(frozen=True, slots=True)
class Asked:
    path: str
    key: str | None
    body: bytes

    def as_bytes(self) -> bytes:
        head = f"POST {self.path} HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n"
        if self.key is not None:
            head += f"Idempotency-Key: {self.key}\r\n"
        return f"{head}Content-Length: {len(self.body)}\r\n\r\n".encode() + self.body


class Line:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def to(cls, port: int) -> "Line":
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def ask(self, asked: Asked) -> float:
        """Milliseconds until the whole answer is there."""
        request = asked.as_bytes()
        began = time.perf_counter()
        self._writer.write(request)
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
        body = await self._reader.readexactly(length)
        took = (time.perf_counter() - began) * 1000
        if not head.startswith(b"HTTP/1.1 201"):
            raise SurefootError(f"{asked.path} was answered with {head.decode()}{body.decode()}")
        return took

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()


async def lines(port: int, count: int) -> list[Line]:
    return [await Line.to(port) for _ in range(count)]


async def rate(open_lines: Sequence[Line], asked: Sequence[Asked]) -> float:
    """Requests a second, with each line asking as soon as it has its answer."""
    waiting = iter(asked)

    async def keep_asking(line: Line) -> None:
        for one in waiting:
            await line.ask(one)

    began = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for line in open_lines:
            group.create_task(keep_asking(line))
    return len(asked) / (time.perf_counter() - began)
