"""200 requests at once under each of several keys, over a pool of 20 connections: each is done once, the others are
told to come again or given the same bytes, and those with other keys do not notice.

8 keys; 500 with SUREFOOT_SOAK. The crowd shares the machine with the server, so it does little: connections that stay
open, requests as bytes, and of the answers only what is different between them.
"""

import asyncio
import itertools
import json
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Self
from uuid import uuid4

import asyncpg
import pytest

from tests.blackbox.idempotency.reply import OF_THE_MOMENT
from tests.support.relay.processes import start_process
from tests.support.waiting import eventually

READY = "listening at http://127.0.0.1:"
REPLAYED = "x-idempotency-replayed"
SOAK = bool(os.environ.get("SUREFOOT_SOAK"))
KEYS = 500 if SOAK else 8
AT_ONCE = 200
CROWDS = 4
"""Keys that are crowded at the same time."""
PATHS = ("/local", "/outside")
DELAYS_MS = (0, 40, 200, 2_500)
"""The last is longer than a request is let wait."""
OTHERS = 4
TRICKLE_EVERY_S = 0.1
TRICKLE_BOUND_MS = 15_000
"""By far: the server's one processor has 800 others to answer."""
pytestmark = [pytest.mark.crowd, pytest.mark.timeout(3_600 if SOAK else 300)]


@dataclass(frozen=True, slots=True)
class Ask:
    path: str
    key: str
    delay_ms: int = 0

    def as_bytes(self) -> bytes:
        """The key is the mark too: what is done under it is counted under that."""
        body = json.dumps({"mark": self.key, "amount": 100, "delay_ms": self.delay_ms}).encode()
        return (
            f"POST {self.path} HTTP/1.1\r\nHost: crowd\r\nAuthorization: Bearer one\r\nContent-Type: application/json"
            f"\r\nIdempotency-Key: {self.key}\r\nContent-Length: {len(body)}\r\n\r\n"
        ).encode() + body


class Answer(NamedTuple):
    status: int
    headers: tuple[str, ...]
    """Without those that belong to the sending."""
    body: bytes
    replayed: bool
    retry_after: bool

    @property
    def kept(self) -> tuple[object, ...]:
        """What every retry gets."""
        return self.status, self.headers, self.body


class Line:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def to(cls, port: int) -> Self:
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    def send(self, request: bytes) -> None:
        self._writer.write(request)

    async def answer(self) -> Answer:
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        status, *lines = head.rstrip().split("\r\n")
        fields = {line.partition(":")[0].lower(): line for line in lines}
        body = await self._reader.readexactly(int(fields["content-length"].partition(":")[2]))
        aside = OF_THE_MOMENT | {REPLAYED}
        headers = tuple(line for line in lines if line.partition(":")[0].lower() not in aside)
        return Answer(int(status.split()[1]), headers, body, REPLAYED in fields, "retry-after" in fields)

    async def ask(self, ask: Ask) -> Answer:
        self.send(ask.as_bytes())
        return await self.answer()

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()


@dataclass
class Tally:
    """What all of them have heard."""

    statuses: Counter[int] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    first_times: Counter[str] = field(default_factory=Counter)
    """Answers that were not given again, by key."""
    trickle_ms: list[float] = field(default_factory=list)

    def heard(self, ask: Ask, answers: Sequence[Answer]) -> None:
        self.statuses.update(answer.status for answer in answers)
        done = [answer for answer in answers if answer.status == 201]
        self.first_times[ask.key] += sum(not answer.replayed for answer in done)
        if len({answer.kept for answer in done}) > 1:
            self.wrong.append(f"{ask.key} got different answers: { ({answer.kept for answer in done}) }")
        for answer in answers:
            if answer.status != 201 and not (answer.status == 409 and answer.retry_after):
                self.wrong.append(f"{ask} was answered {answer.status} {answer.body[:200]!r}")


async def crowd(lines: Sequence[Line], ask: Ask) -> list[Answer]:
    """All of them ask the same at once; then, when it is quiet, one asks until it has the answer."""
    request = ask.as_bytes()
    for line in lines:
        line.send(request)
    answers = list(await asyncio.gather(*(line.answer() for line in lines)))

    async def has_answer() -> bool:
        answers.append(await lines[0].ask(ask))
        return answers[-1].status == 201

    await eventually(has_answer, what=f"{ask} is answered", within_s=60)
    return answers


async def trickle(line: Line, asks: AsyncIterator[Ask], tally: Tally) -> None:
    """One after the other, each under a new key."""
    async for ask in asks:
        began = time.perf_counter()
        answer = await line.ask(ask)
        tally.trickle_ms.append((time.perf_counter() - began) * 1000)
        if (answer.status, answer.replayed) != (201, False):
            tally.wrong.append(f"a new key, {ask}, was answered {answer.status} {answer.body[:200]!r}")


@asynccontextmanager
async def served(url: str, directory: Path, *, pool: int, wait_in_flight: str) -> AsyncIterator[int]:
    """The port of the reference app in a process of its own."""
    log = directory / "server.log"
    command = ["tests.support.idempotency.reference_app", "--database", url, "--pool", str(pool), "--completer"]
    server = await start_process(command, log, {"SUREFOOT_IDEMPOTENCY_WAIT_IN_FLIGHT": wait_in_flight})

    async def port() -> int:
        assert server.process.returncode is None, log.read_text()
        found = [line for line in log.read_text().splitlines() if line.startswith(READY)]
        return int(found[0].removeprefix(READY)) if found else 0

    try:
        yield await eventually(port, what="the server listens", within_s=60)
    finally:
        server.process.terminate()
        await server.ended()


# -- the test ----------------------------------------------------------------------------------------------------------


async def test_of_a_crowd_under_one_key_one_is_done_and_others_are_still_answered(
    database_url: str, tmp_path: Path
) -> None:
    ways = itertools.cycle(itertools.product(DELAYS_MS, PATHS))
    asks = [Ask(path, f"crowd-{uuid4().hex}", delay_ms) for (delay_ms, path), _ in zip(ways, range(KEYS), strict=False)]
    tally = Tally()
    async with served(database_url, tmp_path, pool=20, wait_in_flight="PT1.5S") as port:
        began = time.perf_counter()
        others = await _crowded(port, asks, tally)
        took_s = time.perf_counter() - began
    figures = {
        "keys": KEYS,
        "requests": tally.statuses.total(),
        "seconds": round(took_s, 1),
        "statuses": dict(tally.statuses),
        "trickle": len(tally.trickle_ms),
        "trickle_p50_ms": round(sorted(tally.trickle_ms)[len(tally.trickle_ms) // 2]),
        "trickle_max_ms": round(max(tally.trickle_ms)),
    }
    (tmp_path / "figures.json").write_text(json.dumps(figures))
    assert tally.wrong == [], figures
    assert tally.statuses.keys() == {201, 409}, figures
    assert max(tally.trickle_ms) < TRICKLE_BOUND_MS, figures
    assert {key: count for key, count in tally.first_times.items() if count > 1} == {}
    await _each_was_done_once(database_url, asks, others)


async def _crowded(port: int, asks: list[Ask], tally: Tally) -> list[Ask]:
    """Let the crowds come, some keys at a time; what the others have asked meanwhile."""
    others: list[Ask] = []
    waiting = iter(asks)
    over = asyncio.Event()

    async def come_by() -> AsyncIterator[Ask]:
        for path in itertools.cycle(PATHS):
            if over.is_set():
                return
            others.append(Ask(path, f"other-{uuid4().hex}"))
            yield others[-1]
            await asyncio.sleep(TRICKLE_EVERY_S)

    async def come(lines: list[Line]) -> None:
        for ask in waiting:
            tally.heard(ask, await crowd(lines, ask))

    lines = [[await Line.to(port) for _ in range(AT_ONCE)] for _ in range(CROWDS)]
    aside = [await Line.to(port) for _ in range(OTHERS)]
    async with asyncio.TaskGroup() as group:
        for line in aside:
            group.create_task(trickle(line, come_by(), tally))
        await asyncio.gather(*(come(some) for some in lines))
        over.set()
    for line in [*aside, *itertools.chain(*lines)]:
        await line.close()
    return others


async def _each_was_done_once(url: str, asks: list[Ask], others: list[Ask]) -> None:
    connection = await asyncpg.connect(url)
    try:
        runs = await connection.fetch("SELECT mark, count(*) FROM reference.runs GROUP BY mark")
        effects = await connection.fetch("SELECT mark, count(*) FROM reference.effects GROUP BY mark")
        calls = await connection.fetch("SELECT mark, count(*) FROM provider.calls GROUP BY mark")
        states = await connection.fetch("SELECT state::text, count(*) FROM surefoot.idempotency_keys GROUP BY 1")
    finally:
        await connection.close()
    once = {ask.key: 1 for ask in [*asks, *others]}
    assert dict(runs) == once
    assert dict(effects) == once
    assert dict(calls) == {ask.key: 1 for ask in [*asks, *others] if ask.path == "/outside"}
    assert dict(states) == {"COMPLETED": len(once)}
