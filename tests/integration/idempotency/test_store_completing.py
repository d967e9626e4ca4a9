"""What the completer finds, and what it leaves to others."""

from datetime import timedelta

import asyncpg

from surefoot.idempotency.store import Store
from surefoot.idempotency.values import Answered
from tests.integration.idempotency.storing import CREATED, REQUEST, age, answered, asked, begun, end_lease, found, kept

GRACE = timedelta(seconds=2)
SOON = timedelta(seconds=1)


async def test_what_is_worked_on_is_left_alone(store: Store) -> None:
    claim = await kept(store)
    assert await store.overdue(10, GRACE) == []
    assert await store.take_over(claim.asked.key_hash) is None


async def test_a_lease_is_overdue_after_its_grace(store: Store, connection: asyncpg.Connection) -> None:
    claim = await kept(store)
    await age(connection, claim.asked, timedelta(seconds=31))
    assert await store.overdue(10, GRACE) == []
    assert await store.take_over(claim.asked.key_hash, GRACE) is None
    await age(connection, claim.asked, timedelta(seconds=2))
    assert await store.overdue(10, GRACE) == [claim.asked.key_hash]


async def test_a_failure_is_overdue_when_its_rest_is_over(store: Store, connection: asyncpg.Connection) -> None:
    claim = await kept(store)
    await store.fail(claim, error="no", unknown=True, retry_in=timedelta(seconds=30))
    assert await store.overdue(10, GRACE) == []
    await age(connection, claim.asked, timedelta(seconds=31))
    assert await store.overdue(10, GRACE) == [claim.asked.key_hash]


async def test_the_longest_overdue_come_first_and_not_all_at_once(store: Store, connection: asyncpg.Connection) -> None:
    claims = [await kept(store, asked(f"key-{number}", "outside")) for number in range(3)]
    for claim, hours in zip(claims, (2, 3, 1), strict=True):
        await age(connection, claim.asked, timedelta(hours=hours))
    assert await store.overdue(2, GRACE) == [claims[1].asked.key_hash, claims[0].asked.key_hash]


async def test_what_has_its_answer_or_is_local_is_not_overdue(store: Store, connection: asyncpg.Connection) -> None:
    await answered(store, asked("local"))
    await answered(store, asked("outside", "outside"))
    async with await begun(store, asked("failed")) as begins:
        await begins.finish(CREATED, "FAILED_RETRY")
    for key in ("local", "outside", "failed"):
        await age(connection, asked(key), timedelta(hours=1))
    assert await store.overdue(10, GRACE) == []


async def test_the_completer_gets_the_request_and_all_that_was_done(
    store: Store, connection: asyncpg.Connection
) -> None:
    first = await kept(store, id="ch_1")
    async with store.phase(first, "charge_created") as unit:
        unit.result = {"row": 1}
    await end_lease(connection, first.asked)
    taken = await store.take_over(first.asked.key_hash, GRACE)
    assert taken is not None
    claim, request = taken
    assert request == REQUEST
    assert claim.asked == first.asked
    assert (claim.fence, claim.attempt, claim.created_at) == (2, 2, first.created_at)
    assert (claim.minted, claim.provider_key) == ({"id": "ch_1"}, "provider-key-1")
    assert claim.phases == {"charge_created": {"row": 1}}
    assert claim.in_doubt
    await store.complete(claim, CREATED, "COMPLETED")
    assert await found(store, first.asked) == Answered(CREATED)


async def test_it_does_not_wait_for_a_row_that_somebody_holds(store: Store, connection: asyncpg.Connection) -> None:
    claim = await kept(store)
    await end_lease(connection, claim.asked)
    async with connection.transaction():
        await connection.execute("SELECT FROM surefoot.idempotency_keys FOR UPDATE")
        assert await store.take_over(claim.asked.key_hash) is None
    assert await store.take_over(claim.asked.key_hash) is not None


async def test_it_does_not_take_what_a_request_is_taking(store: Store, connection: asyncpg.Connection) -> None:
    claim = await kept(store)
    await store.fail(claim, error="no", unknown=True, retry_in=SOON)
    await age(connection, claim.asked, timedelta(minutes=1))
    async with await begun(store, claim.asked) as begins:
        assert await store.take_over(claim.asked.key_hash) is None
        second = await begins.keep({}, None, "other", REQUEST)
    assert await store.take_over(claim.asked.key_hash) is None
    await store.complete(second, CREATED, "COMPLETED")


async def test_a_key_that_is_gone_is_nobodys(store: Store) -> None:
    assert await store.take_over(b"nothing") is None
