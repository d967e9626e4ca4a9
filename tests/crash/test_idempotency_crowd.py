"""200 requests at once under each of very many keys, over a pool of 20 connections: each is done once, everybody else
is told to come again or given the same bytes, and those with other keys do not notice.

12 keys; 500 with SUREFOOT_SOAK.
"""

import asyncio
import itertools
import json
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import asyncpg
import pytest

from tests.support.idempotency.crowd import Ask, Line, Tally, crowd, served, trickle

SOAK = bool(os.environ.get("SUREFOOT_SOAK"))
KEYS = 500 if SOAK else 12
AT_ONCE = 200
CROWDS = 4
"""Keys that are crowded at the same time."""
PATHS = ("/local", "/outside")
DELAYS_MS = (0, 40, 200, 3_000)
"""The last is longer than anybody waits."""
OTHERS = 4
TRICKLE_EVERY_S = 0.1
TRICKLE_BOUND_MS = 15_000
"""By far: the server's one processor has 800 others to answer."""
pytestmark = [pytest.mark.crowd, pytest.mark.timeout(3_600 if SOAK else 300)]


async def test_of_a_crowd_under_one_key_one_is_done_and_others_are_still_answered(
    database_url: str, tmp_path: Path
) -> None:
    ways = itertools.cycle(itertools.product(DELAYS_MS, PATHS))
    asks = [Ask(path, f"crowd-{uuid4().hex}", delay_ms) for (delay_ms, path), _ in zip(ways, range(KEYS), strict=False)]
    tally = Tally()
    async with served(database_url, tmp_path, pool=20, wait_in_flight="PT2S") as port:
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
