"""One of many may work on a key; the others learn what became of it."""

import asyncio
from datetime import timedelta

import asyncpg
import pytest
from pydantic import SecretStr

from surefoot.errors import ConfigurationError
from surefoot.idempotency.route import Route
from surefoot.idempotency.settings import IdempotencySettings
from surefoot.idempotency.store import Begun, Store
from surefoot.idempotency.values import Answer, Answered, Effect, Gone, InFlight, Mismatch, Unknown
from tests.integration.idempotency.storing import (
    CREATED,
    DECLINED,
    LOCAL,
    OUTSIDE,
    REQUEST,
    ROUTES,
    SECRET,
    SETTINGS,
    age,
    answered,
    asked,
    begun,
    end_lease,
    found,
    free,
    history_of,
    kept,
    row_of,
)
from tests.support.waiting import eventually

EFFECTS: list[Effect] = ["local", "outside"]


@pytest.mark.parametrize("effect", EFFECTS)
async def test_of_fifty_at_once_one_may_begin(store: Store, effect: Effect) -> None:
    wanted = asked(effect=effect)
    results = await asyncio.gather(*(store.begin(wanted, ROUTES[effect]) for _ in range(50)))
    (winner,) = [result for result in results if isinstance(result, Begun)]
    assert sum(isinstance(result, InFlight) for result in results) == 49
    await winner.release()


@pytest.mark.parametrize("effect", EFFECTS)
async def test_of_fifty_in_two_processes_one_may_begin(database_url: str, store: Store, effect: Effect) -> None:
    wanted = asked(effect=effect)
    async with Store(database_url, SETTINGS) as other:
        results = await asyncio.gather(
            *(each.begin(wanted, ROUTES[effect]) for _ in range(25) for each in (store, other))
        )
        (winner,) = [result for result in results if isinstance(result, Begun)]
        await winner.release()


@pytest.mark.parametrize("effect", EFFECTS)
async def test_what_was_released_was_never_asked_for(
    store: Store, connection: asyncpg.Connection, effect: Effect
) -> None:
    wanted = asked(effect=effect)
    async with await begun(store, wanted):
        assert await store.look(wanted) == InFlight(30)
    assert await row_of(connection, wanted) is None
    assert await history_of(connection, wanted) == []
    assert await store.look(wanted) is None
    await (await begun(store, wanted)).release()


@pytest.mark.parametrize("effect", EFFECTS)
async def test_an_answer_is_given_again_as_it_was(store: Store, connection: asyncpg.Connection, effect: Effect) -> None:
    wanted = asked(effect=effect)
    await answered(store, wanted)
    assert await found(store, wanted) == Answered(CREATED)
    assert await store.look(wanted) == Answered(CREATED)
    assert await history_of(connection, wanted) == ["claimed", "stored"]


async def test_an_answer_is_given_to_many_at_once(store: Store) -> None:
    """Also to those who come while another one looks: none of them is told that it is in flight."""
    wanted = asked()
    await answered(store, wanted)
    results = await asyncio.gather(*(store.begin(wanted, LOCAL) for _ in range(60)))
    assert results == [Answered(CREATED)] * 60


async def test_an_answer_of_any_bytes_is_kept(store: Store) -> None:
    wanted = asked()
    odd = Answer(200, (("x-name", "é\x01"), ("x-name", "")), bytes(range(256)) * 40)
    await answered(store, wanted, odd)
    assert await found(store, wanted) == Answered(odd)


async def test_a_terminal_failure_is_given_again_too(store: Store) -> None:
    claim = await kept(store)
    await store.complete(claim, DECLINED, "FAILED_TERMINAL")
    assert await found(store, claim.asked) == Answered(DECLINED)


async def test_an_answer_is_stored_as_one(store: Store) -> None:
    claim = await kept(store)
    with pytest.raises(ConfigurationError, match="not as FAILED_RETRY"):
        await store.complete(claim, DECLINED, "FAILED_RETRY")


@pytest.mark.parametrize("effect", EFFECTS)
async def test_another_request_under_the_key_is_refused_and_noted(
    store: Store, connection: asyncpg.Connection, effect: Effect
) -> None:
    wanted = asked(effect=effect)
    await answered(store, wanted)
    row = await row_of(connection, wanted)
    assert row is not None
    assert await found(store, asked(effect=effect, body=b"101")) == Mismatch(row["created_at"])

    async def is_noted() -> bool:
        return "refused" in await history_of(connection, wanted)

    await eventually(is_noted, what="the refusal is in the history")


async def test_another_request_is_refused_while_the_first_is_in_flight(store: Store) -> None:
    claim = await kept(store)
    assert isinstance(await found(store, asked(effect="outside", body=b"101")), Mismatch)
    assert isinstance(await found(store, claim.asked), InFlight)


async def test_the_same_key_of_another_tenant_is_another_key(store: Store) -> None:
    await answered(store, asked())
    await (await begun(store, asked(tenant="other"))).release()


@pytest.mark.parametrize("effect", EFFECTS)
async def test_the_windows_follow_each_other(store: Store, connection: asyncpg.Connection, effect: Effect) -> None:
    wanted = asked(effect=effect)
    await answered(store, wanted)
    row = await row_of(connection, wanted)
    assert row is not None
    await age(connection, wanted, timedelta(hours=23, minutes=59))
    assert await found(store, wanted) == Answered(CREATED)
    await age(connection, wanted, timedelta(minutes=2))
    gone = await found(store, wanted)
    assert gone == Gone(row["created_at"] - timedelta(hours=24, minutes=1))
    await age(connection, wanted, timedelta(hours=23, minutes=58))
    assert isinstance(await found(store, wanted), Gone)
    assert isinstance(await found(store, asked(effect=effect, body=b"101")), Mismatch)
    await age(connection, wanted, timedelta(minutes=2))
    async with await free(store, wanted) as begins:
        assert (begins.claim.fence, begins.claim.attempt, begins.claim.minted) == (2, 1, {})


async def test_a_route_says_how_long_its_windows_are(store: Store, connection: asyncpg.Connection) -> None:
    short = Route(effect="local", replay_for=timedelta(hours=1), gone_for=timedelta(hours=2))
    wanted = asked()
    async with await begun(store, wanted, short) as begins:
        await begins.finish(CREATED, "COMPLETED")
    row = await row_of(connection, wanted)
    assert row is not None
    assert row["replay_until"] - row["created_at"] == timedelta(hours=1)
    assert row["gone_until"] - row["created_at"] == timedelta(hours=3)


@pytest.mark.parametrize("effect", EFFECTS)
async def test_a_key_that_is_new_again_has_nothing_of_the_old_request(
    store: Store, connection: asyncpg.Connection, effect: Effect
) -> None:
    old = asked(effect="outside")
    claim = await kept(store, old, old="yes")
    async with store.phase(claim, "charge_created") as unit:
        unit.result = 1
    await store.complete(claim, CREATED, "COMPLETED")
    await age(connection, old, timedelta(hours=49))
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
    assert row["recovery_point"] is None
    assert row["fingerprint"] == new.fingerprint
    assert await connection.fetchval("SELECT count(*) FROM surefoot.idempotency_phases") == 0
    assert await found(store, new) == Answered(DECLINED)


async def test_a_key_that_is_new_again_and_is_reaped_meanwhile_is_still_claimed(
    store: Store, connection: asyncpg.Connection
) -> None:
    wanted = asked()
    await answered(store, wanted)
    await age(connection, wanted, timedelta(hours=49))
    async with await begun(store, wanted) as begins:
        assert await store.reap(10) == 1
        await begins.finish(DECLINED, "COMPLETED")
    assert await found(store, wanted) == Answered(DECLINED)


async def test_attempts_are_bounded(store: Store, connection: asyncpg.Connection) -> None:
    twice = Route(effect="outside", attempts=2)
    wanted = asked(effect="outside")
    claim = await kept(store, wanted, twice)
    soon = timedelta(seconds=1)
    assert not await store.fail(claim, error="no", unknown=True, retry_in=soon, most_attempts=2)
    claim = await kept(store, wanted, twice)
    assert claim.attempt == 2
    assert await store.fail(claim, error="no", unknown=True, retry_in=soon, most_attempts=2)
    assert await found(store, wanted, twice) == Unknown("ch_1", 2)
    assert await history_of(connection, wanted) == ["claimed", "failed", "taken_over", "failed", "exhausted"]


async def test_a_claim_that_died_too_often_is_not_tried_again(store: Store, connection: asyncpg.Connection) -> None:
    once = Route(effect="outside", attempts=1)
    claim = await kept(store, route=once)
    await end_lease(connection, claim.asked)
    assert await found(store, claim.asked, once) == Unknown("ch_1", 1)


async def test_a_local_route_is_tried_again_after_a_failure(store: Store, connection: asyncpg.Connection) -> None:
    wanted = asked()
    async with await begun(store, wanted) as begins:
        await begins.finish(Answer(503, (), b"busy"), "FAILED_RETRY")
    row = await row_of(connection, wanted)
    assert row is not None
    assert (row["state"], row["status"], row["body"]) == ("FAILED_RETRY", None, None)
    assert isinstance(await found(store, asked(body=b"101")), Mismatch)
    async with await begun(store, wanted) as begins:
        assert (begins.claim.fence, begins.claim.attempt) == (2, 2)
        await begins.finish(CREATED, "COMPLETED")
    assert await found(store, wanted) == Answered(CREATED)
    assert await connection.fetchval("SELECT attempts FROM surefoot.idempotency_keys") == 2


async def test_an_outside_route_needs_a_secret(database_url: str) -> None:
    async with Store(database_url, IdempotencySettings(secrets=())) as store:
        with pytest.raises(ConfigurationError, match="SUREFOOT_IDEMPOTENCY_SECRETS"):
            await store.begin(asked(effect="outside"), OUTSIDE)
        await answered(store, asked())  # a local one does not


async def test_what_is_stored_of_a_request_is_encrypted(store: Store, connection: asyncpg.Connection) -> None:
    claim = await kept(store)
    row = await row_of(connection, claim.asked)
    assert row is not None
    assert b"4242" not in row["request"]
    await store.complete(claim, CREATED, "COMPLETED")
    row = await row_of(connection, claim.asked)
    assert row is not None
    assert row["request"] is None


async def test_secrets_can_be_changed_while_requests_are_stored(
    database_url: str, store: Store, connection: asyncpg.Connection
) -> None:
    claim = await kept(store)
    await end_lease(connection, claim.asked)
    new = "Zm9yIHRlc3RzIG9ubHksIDMyIGJ5dGVzIGxvbmchISE="
    async with Store(database_url, IdempotencySettings(secrets=(SecretStr(new),))) as without:
        with pytest.raises(ConfigurationError, match="Keep the old secret"):
            await without.take_over(claim.asked.key_hash)
    async with Store(database_url, IdempotencySettings(secrets=(SecretStr(new), SecretStr(SECRET)))) as both:
        taken = await both.take_over(claim.asked.key_hash)
        assert taken is not None
        assert taken[1] == REQUEST
