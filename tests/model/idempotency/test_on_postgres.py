"""Hundreds of the same interleavings on the store in Postgres. Time is moved by moving the key's times back."""

import hashlib
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import asyncpg
import pytest
from cryptography.fernet import Fernet
from pydantic import SecretStr

from surefoot.idempotency.settings import IdempotencySettings
from surefoot.idempotency.store import Store
from tests.support.idempotency_model.interleaving import RULES, play, world_of
from tests.support.idempotency_model.reference import Verdict
from tests.support.idempotency_model.world import RETRY_IN, Worker
from tests.support.waiting import eventually

pytestmark = pytest.mark.proof
INTERLEAVINGS = 400
PARTS = 2
SEEN: tuple[Verdict, ...] = ("begin", "resume", "answered", "mismatch", "in_flight")
TIMES = ("created_at", "lease_until", "leased_at", "due_at", "answered_at", "replay_until", "gone_until")
MOVE_BACK = f"""
    UPDATE surefoot.idempotency_keys SET {", ".join(f"{time} = {time} - $2::interval" for time in TIMES)}
    WHERE key_hash = $1"""
LOCKS = """
    SELECT count(*) FROM pg_locks
    WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"""
SETTINGS = IdempotencySettings(
    secrets=(SecretStr(Fernet.generate_key().decode()),),
    lease=RULES.lease,
    renew_every=RULES.lease / 3,
    longest_lease=RULES.longest_lease,
    grace=RULES.grace,
    retry_first=RETRY_IN,
)


class OnPostgres:
    """One key of a store."""

    def __init__(self, store: Store, connection: asyncpg.Connection, key_hash: bytes) -> None:
        self.store = store
        self._connection = connection
        self._key_hash = key_hash
        self._ahead = timedelta(0)

    def now(self) -> datetime:
        return datetime.now(UTC) + self._ahead

    async def advance(self, by: timedelta, workers: list[Worker]) -> None:
        await self._connection.execute(MOVE_BACK, self._key_hash, by)
        self._ahead += by
        for worker in workers:
            worker.claim = replace(worker.claim, created_at=worker.claim.created_at - by)

    async def quiet(self, workers: list[Worker]) -> None:
        expected = sum(worker.has_transaction for worker in workers)

        async def is_quiet() -> bool:
            return bool(await self._connection.fetchval(LOCKS) == expected)

        await eventually(is_quiet, what=f"{expected} hold the key's lock")


@pytest.mark.parametrize("part", range(PARTS))
async def test_in_hundreds_of_interleavings_on_postgres_every_promise_is_kept(part: int, database_url: str) -> None:
    verdicts: Counter[Verdict] = Counter()
    connection = await asyncpg.connect(database_url)
    try:
        async with Store(database_url, SETTINGS) as store:
            for seed in range(part, INTERLEAVINGS, PARTS):
                key_hash = hashlib.sha256(str(seed).encode()).digest()
                world = world_of(seed, OnPostgres(store, connection, key_hash), key_hash)
                try:
                    await play(world)
                except AssertionError as broken:
                    raise AssertionError(f"seed {seed}: {broken}") from broken
                verdicts += world.verdicts
    finally:
        await connection.close()
    assert all(verdicts[verdict] > 0 for verdict in SEEN), verdicts
