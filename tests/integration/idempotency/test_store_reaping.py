"""Old answers go, then their keys. What may have had an effect that is not accounted for stays."""

import asyncio
from datetime import timedelta

import asyncpg
import pytest

from surefoot.idempotency.store import Store
from surefoot.idempotency.values import Gone, State
from tests.support.idempotency.store_requests import (
    CREATED,
    age,
    answered,
    asked,
    begun,
    found,
    history_of,
    kept,
    row_of,
)

pytestmark = pytest.mark.slow

SOON = timedelta(seconds=1)
A_YEAR = timedelta(days=365)


@pytest.mark.parametrize("state", ["COMPLETED", "FAILED_TERMINAL"])
async def test_an_answer_that_is_given_no_longer_is_removed(
    store: Store, connection: asyncpg.Connection, state: State
) -> None:
    claim = await kept(store)
    await store.complete(claim, CREATED, state)
    assert await store.expire(10) == 0
    await age(connection, claim.asked, timedelta(hours=25))
    assert await store.expire(10) == 1
    row = await row_of(connection, claim.asked)
    assert row is not None
    assert (row["state"], row["body"], row["headers"], row["request"]) == ("EXPIRED", None, None, None)
    assert isinstance(await found(store, claim.asked), Gone)
    assert await history_of(connection, claim.asked) == ["claimed", "stored", "expired"]
    assert await store.reap(10) == 0


@pytest.mark.parametrize("expired_first", [True, False])
async def test_a_key_that_is_new_again_is_deleted_with_all_that_belongs_to_it(
    store: Store, connection: asyncpg.Connection, expired_first: bool
) -> None:
    claim = await kept(store)
    async with store.phase(claim, "charge_created"):
        pass
    await store.complete(claim, CREATED, "COMPLETED")
    await age(connection, claim.asked, timedelta(hours=49))
    if expired_first:
        assert await store.expire(10) == 1
    assert await store.reap(10) == 1
    for table in ("idempotency_keys", "idempotency_phases", "pending_calls"):
        assert await connection.fetchval(f"SELECT count(*) FROM surefoot.{table}") == 0
    assert await connection.fetchval("SELECT count(*) FROM surefoot.idempotency_history") > 0


async def test_what_is_in_flight_or_in_doubt_or_pending_is_never_deleted(
    store: Store, connection: asyncpg.Connection
) -> None:
    in_flight = await kept(store, asked("in flight", "outside"))
    in_doubt = await kept(store, asked("in doubt", "outside"))
    pending = await kept(store, asked("pending", "outside"))
    await store.fail(in_doubt, error="no", unknown=True, retry_in=None)
    await store.fail(pending, error="no", unknown=False, retry_in=SOON)
    for claim in (in_flight, in_doubt, pending):
        await age(connection, claim.asked, A_YEAR)
    assert await store.expire(10) == 0
    assert await store.reap(10) == 0
    assert await connection.fetchval("SELECT count(*) FROM surefoot.pending_calls WHERE closed_at IS NULL") == 3
    await connection.execute(
        "UPDATE surefoot.pending_calls SET closed_at = now() WHERE key_hash = $1", in_doubt.asked.key_hash
    )
    assert await store.reap(10) == 0, "the doubt keeps it by itself"


async def test_a_failure_with_nothing_pending_is(store: Store, connection: asyncpg.Connection) -> None:
    claim = await kept(store, asked("nothing pending", "outside"))
    await store.fail(claim, error="no", unknown=False, retry_in=None)
    async with await begun(store, asked("local")) as begins:
        await begins.finish(CREATED, "FAILED_RETRY")
    for key in ("nothing pending", "local"):
        await age(connection, asked(key), timedelta(hours=49))
    assert await store.reap(10) == 2


async def test_it_goes_batch_by_batch_the_oldest_first(store: Store, connection: asyncpg.Connection) -> None:
    for number in range(5):
        await answered(store, asked(f"key-{number}"))
        await age(connection, asked(f"key-{number}"), timedelta(hours=60 - number))
    assert [await store.expire(2) for _ in range(4)] == [2, 2, 1, 0]
    assert await store.reap(2) == 2
    assert await row_of(connection, asked("key-1")) is None
    assert await row_of(connection, asked("key-2")) is not None
    assert [await store.reap(2) for _ in range(3)] == [2, 1, 0]


async def test_rows_that_are_locked_are_left_for_the_next_time(store: Store, connection: asyncpg.Connection) -> None:
    for key in ("held", "free"):
        await answered(store, asked(key))
        await age(connection, asked(key), timedelta(hours=49))
    async with connection.transaction():
        await connection.execute(
            "SELECT FROM surefoot.idempotency_keys WHERE key_hash = $1 FOR UPDATE", asked("held").key_hash
        )
        assert await asyncio.wait_for(store.expire(10), 5) == 1
        assert await asyncio.wait_for(store.reap(10), 5) == 1
    assert await store.reap(10) == 1
