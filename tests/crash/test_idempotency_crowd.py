"""100 requests at once under each of several keys, over a pool of 20 connections: each is done once, the others are
told to come again or given the same bytes, and those with other keys do not notice.

8 keys; 500 with SUREFOOT_SOAK.
"""

import asyncio
import itertools
import os
import sys
import time
from pathlib import Path

import asyncpg
import pytest

from tests.blackbox.idempotency.asking import ask
from tests.blackbox.idempotency.case import expect_counts, expect_first
from tests.blackbox.idempotency.cases.together import one_of_many_works
from tests.blackbox.idempotency.server import Server, connected
from tests.blackbox.idempotency.serving import served
from tests.blackbox.idempotency.target import Target

SOAK = bool(os.environ.get("SUREFOOT_SOAK"))
KEYS = 500 if SOAK else 8
AT_ONCE = 100
CROWDS = 4
"""Keys that are crowded at the same time."""
PATHS = ("/local", "/outside")
WAIT_S = 1.5
DELAYS_MS = (0, 40, 200, 2_500)
"""The last is longer than a request is let wait."""
OTHERS_EVERY_S = 0.1
OTHERS_BOUND_S = 15
"""By far: the server's one processor has 400 others to answer."""
CALLED_TWICE = "SELECT mark, count(*) FROM provider.calls GROUP BY mark HAVING count(*) > 1"
pytestmark = [pytest.mark.crowd, pytest.mark.timeout(3_600 if SOAK else 300), pytest.mark.promise("P8")]


async def test_of_a_crowd_under_one_key_one_is_done_and_others_are_still_answered(
    database_url: str, tmp_path: Path
) -> None:
    command = [
        sys.executable,
        "-m",
        "tests.support.idempotency.reference_app",
        "--database",
        database_url,
        "--pool",
        "20",
        "--completer",
    ]
    environment = {"SUREFOOT_IDEMPOTENCY_WAIT_IN_FLIGHT": f"PT{WAIT_S}S"}
    ways = itertools.islice(itertools.cycle(itertools.product(PATHS, DELAYS_MS)), KEYS)
    room = asyncio.Semaphore(CROWDS)
    with served(command, tmp_path / "server.log", environment) as base_url:
        target = Target(base_url, longest_wait_s=WAIT_S, patience_s=60)
        async with connected(target, connections=CROWDS * AT_ONCE + len(PATHS)) as server:

            async def crowded(path: str, delay_ms: int) -> None:
                async with room:
                    await one_of_many_works(server, path, AT_ONCE, delay_ms)

            over = asyncio.Event()
            async with asyncio.TaskGroup() as group:
                for path in PATHS:
                    group.create_task(come_by(server, path, over))
                await asyncio.gather(*(crowded(*way) for way in ways))
                over.set()
    connection = await asyncpg.connect(database_url)
    assert await connection.fetch(CALLED_TWICE) == []
    await connection.close()


async def come_by(server: Server, path: str, over: asyncio.Event) -> None:
    """Others, one after another, each with a new key."""
    while not over.is_set():
        asked, began = ask(path), time.monotonic()
        expect_first(await server.send(asked))
        assert time.monotonic() - began < OTHERS_BOUND_S
        await expect_counts(server, asked, runs=1, effects=1)
        await asyncio.sleep(OTHERS_EVERY_S)
