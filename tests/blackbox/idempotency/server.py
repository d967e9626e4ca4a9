"""The target from a case's point of view: requests go in, replies come out, effects are counted."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx

from tests.blackbox.idempotency.asking import Ask
from tests.blackbox.idempotency.reply import Reply
from tests.blackbox.idempotency.target import Target

CONNECTIONS = 64
REST_S = 0.05


@dataclass(frozen=True, slots=True)
class Counted:
    """What the target says about a mark."""

    runs: int
    """How often its handler has started."""
    effects: int
    """How many effects have lasted."""


@dataclass(frozen=True, slots=True)
class Server:
    target: Target
    client: httpx.AsyncClient

    async def send(self, ask: Ask) -> Reply:
        url = ask.path + (f"?{ask.query}" if ask.query else "")
        response = await self.client.request(ask.method, url, content=ask.content(), headers=self.headers(ask))
        return Reply.of(response, self.target.replay_header)

    def headers(self, ask: Ask) -> list[tuple[bytes, bytes]]:
        who = self.target.first if ask.who is None else ask.who
        given = {"Content-Type": ask.content_type, **who, **ask.headers}
        lines = [(name.encode(), value.encode()) for name, value in given.items()]
        if ask.key is not None:
            lines.append((b"Idempotency-Key", ask.key if isinstance(ask.key, bytes) else ask.key.encode()))
        return lines

    async def together(self, asks: Sequence[Ask]) -> list[Reply]:
        return list(await asyncio.gather(*(self.send(one) for one in asks)))

    async def settled(self, ask: Ask) -> Reply:
        """Send it until it is no longer in flight, as a patient client does."""
        return await self.until(ask, lambda reply: reply.status != 409)

    async def until(self, ask: Ask, wanted: Callable[[Reply], bool]) -> Reply:
        """Send it again and again until such a reply comes, or patience is at its end; the last reply."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.target.patience_s
        while True:
            reply = await self.send(ask)
            if wanted(reply) or loop.time() > deadline:
                return reply
            await asyncio.sleep(REST_S)

    async def begun(self, ask: Ask) -> None:
        """Wait until its work has begun."""
        async with asyncio.timeout(self.target.patience_s):
            while True:
                if (await self.counted(ask)).runs > 0:
                    return
                await asyncio.sleep(REST_S)

    async def counted(self, ask: Ask) -> Counted:
        response = await self.client.get("/effects", params={"mark": ask.mark}, headers=dict(self.target.first))
        response.raise_for_status()
        said: dict[str, Any] = response.json()
        return Counted(runs=said["runs"], effects=said["effects"])

    async def get(self, url: str) -> httpx.Response:
        return await self.client.get(url, headers=dict(self.target.first))

    @property
    def address(self) -> tuple[str, int]:
        parts = urlsplit(self.target.base_url)
        assert parts.hostname is not None
        return parts.hostname, parts.port or 80


@asynccontextmanager
async def in_flight(server: Server, ask: Ask) -> AsyncIterator[asyncio.Task[Reply]]:
    """A request whose work has begun, as a task; it is not waited for if the case fails before."""
    working = asyncio.create_task(server.send(ask))
    try:
        await server.begun(ask)
        yield working
    finally:
        working.cancel()
        await asyncio.wait([working])


@asynccontextmanager
async def connected(target: Target, connections: int = CONNECTIONS) -> AsyncIterator[Server]:
    limits = httpx.Limits(max_connections=connections, max_keepalive_connections=connections)
    timeout = httpx.Timeout(target.patience_s + target.longest_wait_s)
    async with httpx.AsyncClient(base_url=target.base_url, limits=limits, timeout=timeout, trust_env=False) as client:
        yield Server(target, client)
