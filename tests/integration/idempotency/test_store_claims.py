"""Claims in the database: one of many gets the key, what is kept with it, and who may take it over.

Which answer each state of a key leads to is for the model (tests/model/idempotency), which plays on this store as well.
"""

import asyncio
from datetime import timedelta

import asyncpg
import pytest

from surefoot.errors import ConfigurationError
from surefoot.idempotency.settings import IdempotencySettings
from surefoot.idempotency.store import Begun, Store
from surefoot.idempotency.values import Answer, Answered, Claim, Effect, InFlight, Mismatch
from tests.support.idempotency.store_requests import (
    CREATED,
    DECLINED,
    OUTSIDE,
    REQUEST,
    ROUTES,
    SETTINGS,
    age,
    answered,
    asked,
    begun,
    end_lease,
    found,
    history_of,
    kept,
    row_of,
)
from tests.support.waiting import eventually

EFFECTS: list[Effect] = ["local", "outside"]
GRACE = timedelta(seconds=2)


@pytest.mark.parametrize("effect", EFFECTS)
async def test_of_fifty_in_two_processes_one_may_begin(database_url: str, store: Store, effect: Effect) -> None:
    wanted = asked(effect=effect)
    async with Store(database_url, SETTINGS) as other:
        results = await asyncio.gather(
            *(each.begin(wanted, ROUTES[effect]) for _ in range(25) for each in (store, other))
        )
        (winner,) = [result for result in results if isinstance(result, Begun)]
        assert sum(isinstance(result, InFlight) for result in results) == 49
        assert await other.look(wanted) == InFlight(30)
        await winner.release()
        assert await other.look(wanted) is None


async def test_an_answer_of_any_bytes_is_kept(store: Store) -> None:
    odd = Answer(200, (("x-name", "é\x01"), ("x-name", "")), bytes(range(256)) * 40)
    await answered(store, asked(), odd)
    assert await found(store, asked()) == Answered(odd)


@pytest.mark.parametrize("effect", EFFECTS)
async def test_another_request_under_the_key_is_noted(
    store: Store, connection: asyncpg.Connection, effect: Effect
) -> None:
    wanted = asked(effect=effect)
    await answered(store, wanted)
    assert isinstance(await found(store, asked(effect=effect, body=b"101")), Mismatch)

    async def is_noted() -> bool:
        return await history_of(connection, wanted) == ["claimed", "stored", "refused"]

    await eventually(is_noted, what="the refusal is in the history")


@pytest.mark.parametrize("effect", EFFECTS)
async def test_a_key_that_is_new_again_has_nothing_of_the_old_request(
    store: Store, connection: asyncpg.Connection, effect: Effect
) -> None:
    """Also where its route has become a local one."""
    old = await kept(store, old="yes")
    async with store.phase(old, "charge_created") as unit:
        unit.result = 1
    await store.complete(old, CREATED, "COMPLETED")
    await age(connection, old.asked, timedelta(hours=49))
    new = asked(effect=effect, body=b"other")
    if effect == "local":
        await answered(store, new, DECLINED)
    else:
        again = await kept(store, new, new="yes")
        assert (again.fence, again.attempt, again.phases, again.minted) == (2, 1, {}, {"new": "yes"})
        assert await connection.fetchval("SELECT closed_at FROM surefoot.pending_calls") is None
        await store.complete(again, DECLINED, "COMPLETED")
    row = await row_of(connection, new)
    assert row is not None
    assert (row["recovery_point"], row["fingerprint"]) == (None, new.fingerprint)
    assert await connection.fetchval("SELECT count(*) FROM surefoot.idempotency_phases") == 0
    assert await found(store, new) == Answered(DECLINED)


async def test_a_key_that_is_new_again_and_is_reaped_meanwhile_is_still_claimed(
    store: Store, connection: asyncpg.Connection
) -> None:
    await answered(store, asked())
    await age(connection, asked(), timedelta(hours=49))
    async with await begun(store, asked()) as begins:
        assert await store.reap(10) == 1
        await begins.finish(DECLINED, "COMPLETED")
    assert await found(store, asked()) == Answered(DECLINED)


@pytest.mark.parametrize("effect", EFFECTS)
async def test_an_answer_that_comes_late_is_given_again_for_as_long_as_any_other(
    store: Store, connection: asyncpg.Connection, effect: Effect
) -> None:
    wanted = asked(effect=effect)
    if effect == "local":
        async with await begun(store, wanted) as begins:
            await begins.finish(DECLINED, "FAILED_RETRY")
    else:
        await kept(store, wanted)
    await age(connection, wanted, timedelta(hours=30))
    await answered(store, wanted)
    assert await found(store, wanted) == Answered(CREATED)
    row = await row_of(connection, wanted)
    assert row is not None
    for until, hours in (("replay_until", 24), ("gone_until", 48)):
        assert abs(row[until] - row["answered_at"] - timedelta(hours=hours)) < timedelta(minutes=1), until


async def test_a_request_is_encrypted_until_it_is_answered_and_needs_a_secret(
    database_url: str, store: Store, connection: asyncpg.Connection
) -> None:
    claim = await kept(store)
    row = await row_of(connection, claim.asked)
    assert row is not None
    assert b"4242" not in row["request"]
    with pytest.raises(ConfigurationError, match="not as FAILED_RETRY"):
        await store.complete(claim, CREATED, "FAILED_RETRY")
    await store.complete(claim, CREATED, "COMPLETED")
    row = await row_of(connection, claim.asked)
    assert row is not None
    assert row["request"] is None
    async with Store(database_url, IdempotencySettings(secrets=())) as without:
        with pytest.raises(ConfigurationError, match="SUREFOOT_IDEMPOTENCY_SECRETS"):
            await without.begin(asked("another", "outside"), OUTSIDE)
        await answered(without, asked("local"))


# -- taking over ------------------------------------------------------------------------------------------------------


async def test_a_lease_is_taken_over_after_its_grace_and_the_longest_overdue_first(
    store: Store, connection: asyncpg.Connection
) -> None:
    claim = await kept(store)
    await age(connection, claim.asked, timedelta(seconds=31))
    assert await store.overdue(10, GRACE) == []
    assert await store.take_over(claim.asked.key_hash, GRACE) is None
    await age(connection, claim.asked, timedelta(seconds=2))
    assert await store.overdue(10, GRACE) == [claim.asked.key_hash]
    others = [await kept(store, asked(f"key-{number}", "outside")) for number in range(2)]
    for one, hours in zip(others, (2, 3), strict=True):
        await age(connection, one.asked, timedelta(hours=hours))
    assert await store.overdue(2, GRACE) == [others[1].asked.key_hash, others[0].asked.key_hash]


async def test_what_is_answered_or_local_is_never_overdue_and_a_failure_is_when_its_rest_is_over(
    store: Store, connection: asyncpg.Connection
) -> None:
    await answered(store, asked("local"))
    await answered(store, asked("outside", "outside"))
    async with await begun(store, asked("failed")) as begins:
        await begins.finish(DECLINED, "FAILED_RETRY")
    resting = await kept(store, asked("resting", "outside"))
    await store.fail(resting, error="no", unknown=True, retry_in=timedelta(hours=2))
    for key in ("local", "outside", "failed", "resting"):
        await age(connection, asked(key), timedelta(hours=1))
    assert await store.overdue(10, GRACE) == []
    assert await store.take_over(resting.asked.key_hash, GRACE) is None
    await age(connection, resting.asked, timedelta(hours=1))
    assert await store.overdue(10, GRACE) == [resting.asked.key_hash]


async def test_what_is_in_use_is_not_taken_over(store: Store, connection: asyncpg.Connection) -> None:
    claim = await kept(store)
    await store.fail(claim, error="no", unknown=True, retry_in=timedelta(0))
    async with connection.transaction():
        await connection.execute("SELECT FROM surefoot.idempotency_keys FOR UPDATE")
        assert await store.take_over(claim.asked.key_hash) is None
    async with await begun(store, claim.asked):
        assert await store.take_over(claim.asked.key_hash) is None
    taken = await store.take_over(claim.asked.key_hash)
    assert taken is not None
    assert (taken[0].fence, taken[0].attempt, taken[1]) == (2, 2, REQUEST)
    assert (taken[0].asked, taken[0].created_at) == (claim.asked, claim.created_at)
    assert (taken[0].minted, taken[0].provider_key) == (claim.minted, claim.provider_key)


async def test_of_many_who_take_over_one_does(database_url: str, store: Store, connection: asyncpg.Connection) -> None:
    first = await kept(store)
    await end_lease(connection, first.asked)
    async with Store(database_url, SETTINGS) as other:

        async def by_request(which: Store) -> Claim | None:
            result = await which.begin(first.asked, OUTSIDE)
            if isinstance(result, InFlight):
                return None
            async with result as begins:  # type: ignore[union-attr]
                return await begins.keep({}, None, "other", REQUEST)

        async def by_completer(which: Store) -> Claim | None:
            taken = await which.take_over(first.asked.key_hash)
            return None if taken is None else taken[0]

        claims = await asyncio.gather(
            *(do(which) for _ in range(8) for which in (store, other) for do in (by_request, by_completer))
        )
    (winner,) = [claim for claim in claims if claim is not None]
    assert (winner.attempt, winner.fence) == (2, 2)
    assert await connection.fetchval("SELECT fence FROM surefoot.idempotency_keys") == 2
