"""All troubles at once: clients that leave at any moment, a server that ends connections as it likes, leases that run
out under two servers with completers and housekeeping. Each request takes effect once and has one answer.

24 keys; 1,500 with SUREFOOT_SOAK. SUREFOOT_SEED chooses another course of the trouble.
"""

import asyncio
import gc
import os
import random
from collections.abc import Iterator
from contextlib import AsyncExitStack, suppress
from typing import Any

import asyncpg
import httpx
import pytest

from surefoot.idempotency import Completer, Housekeeping
from tests.support.idempotency.http_harness import Ground, ground, new_key

SOAK = bool(os.environ.get("SUREFOOT_SOAK"))
KEYS, AT_ONCE = (1_500, 30) if SOAK else (24, 24)
SEED = int(os.environ.get("SUREFOOT_SEED", "7"))
QUICK: dict[str, Any] = {
    "lease": "PT0.6S",
    "renew_every": "PT0.2S",
    "longest_lease": "PT3S",
    "grace": "PT0.1S",
    "complete_every": "PT0.1S",
    "retry_first": "PT0.1S",
    "retry_longest": "PT0.5S",
    "call_timeout": "PT0.5S",
    "wait_in_flight": "PT0.3S",
    "reap_every": "PT0.2S",
}
ONE_OF_OURS = """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE datname = current_database() AND application_name = 'surefoot idempotency' ORDER BY random() LIMIT 1"""
MANNERS = ("answer", "answer", "break", "no_answer")
pytestmark = [
    pytest.mark.crowd,
    pytest.mark.timeout(3_600 if SOAK else 300),
    # A client that leaves while it connects leaves a socket behind, which is httpx's.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(autouse=True)
def abandoned_sockets() -> Iterator[None]:
    """Those sockets are collected here, behind the event loop: the next test would fail for them."""
    yield
    gc.collect()


async def test_whatever_goes_wrong_each_request_is_done_once_and_has_one_answer(
    database_url: str, connection: asyncpg.Connection
) -> None:
    chance = random.Random(SEED)
    over = asyncio.Event()
    async with AsyncExitStack() as stack:
        grounds = [await stack.enter_async_context(ground(database_url, **QUICK)) for _ in range(2)]
        aside = [asyncio.create_task(_background(there, over)) for there in grounds]
        aside.append(asyncio.create_task(_troubled(connection, chance, over)))
        room = asyncio.Semaphore(AT_ONCE)

        async def one(path: str) -> tuple[str, str, list[httpx.Response]]:
            async with room:
                return await _asked_until_answered(grounds, chance, path)

        done = await asyncio.gather(*(one(chance.choice(["/local", "/outside"])) for _ in range(KEYS)))
        over.set()
        await asyncio.gather(*aside)
        history = await grounds[0].store.verify_history()
    assert history.is_whole, history.findings
    assert history.seals > 0
    for _, _, answers in done:
        assert len({(answer.status_code, answer.headers["x-thing"], answer.content) for answer in answers}) == 1
    marks = {mark: path for path, mark, _ in done}
    effects = dict(await connection.fetch("SELECT mark, count(*) FROM reference.effects GROUP BY mark"))
    assert effects == dict.fromkeys(marks, 1)
    charges = dict(await connection.fetch("SELECT mark, count(*) FROM provider.charges GROUP BY mark"))
    assert charges == {mark: 1 for mark, path in marks.items() if path == "/outside"}
    left = await connection.fetch("SELECT state::text, count(*) FROM surefoot.idempotency_keys GROUP BY 1")
    assert dict(left) == {"COMPLETED": KEYS}
    assert await connection.fetchval("SELECT count(*) FROM surefoot.pending_calls WHERE closed_at IS NULL") == 0


async def _asked_until_answered(
    grounds: list[Ground], chance: random.Random, path: str
) -> tuple[str, str, list[httpx.Response]]:
    """As by several impatient clients of one key: some leave early, and all come back until they have the answer."""
    key = new_key()
    members: dict[str, Any] = {
        "delay_ms": chance.choice([0, 0, 20, 300]),
        "provider": chance.choice(MANNERS),
        "times": 2,
    }

    async def client(there: Ground) -> httpx.Response:
        while True:
            patience_s = chance.choice([0.002, 0.01, 0.05, 0.2, 30, 30])
            with suppress(TimeoutError, httpx.TransportError):
                async with asyncio.timeout(patience_s):
                    answer = await there.post(path, key, **members)
                assert answer.status_code in (201, 409, 500, 503, 504), answer.text
                if answer.status_code == 201:
                    return answer
            await asyncio.sleep(chance.uniform(0, 0.1))

    return path, key, list(await asyncio.gather(*(client(chance.choice(grounds)) for _ in range(4))))


async def _background(there: Ground, over: asyncio.Event) -> None:
    completer = Completer(there.app, there.store, there.settings)
    await asyncio.gather(completer.run(over), Housekeeping(there.store, there.settings).run(over))


async def _troubled(connection: asyncpg.Connection, chance: random.Random, over: asyncio.Event) -> None:
    while not over.is_set():
        await connection.fetch(ONE_OF_OURS)
        await asyncio.sleep(chance.uniform(0, 0.15))
