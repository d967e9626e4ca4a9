"""A claim for an outside effect: phase by phase, under its fence, and by whoever comes after."""

import asyncio
from datetime import timedelta
from typing import Any

import asyncpg
import pytest
from sqlalchemy import text

from surefoot.consumer import HandlerMisuse
from surefoot.idempotency.errors import FenceLost, PhaseMisuse
from surefoot.idempotency.settings import IdempotencySettings
from surefoot.idempotency.store import Store
from surefoot.idempotency.values import Answered, Claim, InFlight, Note
from tests.events import ThingHappened
from tests.integration.idempotency.storing import (
    CREATED,
    DECLINED,
    OUTSIDE,
    REQUEST,
    SETTINGS,
    age,
    asked,
    begun,
    end_lease,
    found,
    free,
    history_of,
    kept,
    row_of,
)

pytestmark = pytest.mark.slow

SOON = timedelta(seconds=1)


async def phase(store: Store, claim: Claim, name: str, n: int, result: Any = None) -> None:
    async with store.phase(claim, name) as unit:
        await unit.tx.session.execute(text("INSERT INTO effects VALUES (:n)"), {"n": n})
        unit.tx.publish(ThingHappened(thing_id="a", number=n))
        unit.result = result


async def effects(connection: asyncpg.Connection) -> list[int]:
    return [row["n"] for row in await connection.fetch("SELECT n FROM effects ORDER BY n")]


async def test_what_every_attempt_needs_is_kept_with_the_claim(store: Store, connection: asyncpg.Connection) -> None:
    wanted = asked(effect="outside")
    async with await begun(store, wanted) as begins:
        claim = await begins.keep({"id": "ch_1", "at": "2026-03-01"}, "ch_1", "pk_1", REQUEST)
    assert (claim.minted, claim.provider_key, claim.attempt) == ({"id": "ch_1", "at": "2026-03-01"}, "pk_1", 1)
    assert not claim.in_doubt
    row = await row_of(connection, wanted)
    assert row is not None
    assert (row["state"], row["resource"], row["attempts"]) == ("IN_FLIGHT", "ch_1", 1)
    call = await connection.fetchrow("SELECT provider_key, calls, closed_at FROM surefoot.pending_calls")
    assert tuple(call) == ("pk_1", 0, None)
    in_flight = await found(store, wanted)
    assert isinstance(in_flight, InFlight)
    assert 20 < in_flight.lease_s <= 30


async def test_what_cannot_be_read_back_cannot_be_minted(store: Store, connection: asyncpg.Connection) -> None:
    async with await begun(store, asked(effect="outside")) as begins:
        with pytest.raises(PhaseMisuse, match="What was minted cannot be stored"):
            await begins.keep({"id": object()}, None, "pk_1", REQUEST)
    assert await row_of(connection, asked(effect="outside")) is None


async def test_a_phase_is_its_work_its_events_and_its_result(store: Store, connection: asyncpg.Connection) -> None:
    claim = await kept(store)
    await phase(store, claim, "charge_created", 1, {"row": [1, None, "é"]})
    assert await effects(connection) == [1]
    assert await connection.fetchval("SELECT count(*) FROM surefoot.outbox_events") == 1
    assert await connection.fetchval("SELECT recovery_point FROM surefoot.idempotency_keys") == "charge_created"
    assert await history_of(connection, claim.asked) == ["claimed", "phase"]


async def test_a_phase_that_raises_leaves_nothing(store: Store, connection: asyncpg.Connection) -> None:
    claim = await kept(store)
    with pytest.raises(ZeroDivisionError):
        async with store.phase(claim, "charge_created") as unit:
            await unit.tx.session.execute(text("INSERT INTO effects VALUES (1)"))
            raise ZeroDivisionError
    assert await effects(connection) == []
    assert await connection.fetchval("SELECT recovery_point FROM surefoot.idempotency_keys") is None


async def test_a_result_that_cannot_be_read_back_leaves_nothing(store: Store, connection: asyncpg.Connection) -> None:
    claim = await kept(store)
    with pytest.raises(PhaseMisuse, match="The result of phase 'charge_created' cannot be stored"):
        await phase(store, claim, "charge_created", 1, {"when": object()})
    assert await effects(connection) == []


async def test_a_phase_has_a_name_of_its_own(store: Store, connection: asyncpg.Connection) -> None:
    claim = await kept(store)
    await phase(store, claim, "charge_created", 1)
    with pytest.raises(PhaseMisuse, match="'charge_created' was done before"):
        await phase(store, claim, "charge_created", 2)
    assert await effects(connection) == [1]


async def test_a_phase_that_ends_its_transaction_is_found_out(store: Store, connection: asyncpg.Connection) -> None:
    claim = await kept(store)
    with pytest.raises(HandlerMisuse, match="nobody knows what of it stays"):
        async with store.phase(claim, "charge_created") as unit:
            raw = await (await unit.tx.session.connection()).get_raw_connection()
            await raw.driver_connection.execute("ROLLBACK; BEGIN")  # type: ignore[union-attr]
    assert await connection.fetchval("SELECT recovery_point FROM surefoot.idempotency_keys") is None


async def test_notes_are_written_with_the_phase_and_the_answer(store: Store, connection: asyncpg.Connection) -> None:
    claim = await kept(store)
    async with store.phase(claim, "settled") as unit:
        unit.notes.append(Note("replied", {"call": "capture"}))
    await store.complete(claim, CREATED, "COMPLETED", [Note("replied", {"call": "other"})])
    assert await history_of(connection, claim.asked) == ["claimed", "replied", "phase", "replied", "stored"]


async def test_a_call_is_noted_and_counted_by_itself(store: Store, connection: asyncpg.Connection) -> None:
    claim = await kept(store)
    await store.note(claim, Note("called", {"call": "capture"}))
    await store.note(claim, Note("replied", {"call": "capture"}))
    assert await history_of(connection, claim.asked) == ["claimed", "called", "replied"]
    assert await connection.fetchval("SELECT calls FROM surefoot.pending_calls") == 1


# -- who comes after --------------------------------------------------------------------------------------------------


async def test_a_request_takes_over_what_was_abandoned(store: Store, connection: asyncpg.Connection) -> None:
    first = await kept(store, id="ch_1")
    await phase(store, first, "charge_created", 1, {"row": 1})
    await phase(store, first, "nothing", 2, None)
    await end_lease(connection, first.asked)
    async with await begun(store, first.asked) as begins:
        assert (begins.claim.attempt, begins.claim.fence, begins.claim.created_at) == (2, 2, first.created_at)
        assert begins.claim.phases == {"charge_created": {"row": 1}, "nothing": None}
        assert (begins.claim.minted, begins.claim.provider_key) == ({"id": "ch_1"}, "provider-key-1")
        assert begins.claim.in_doubt
        second = await begins.keep({"id": "other", "more": 1}, None, "other-provider-key", REQUEST)
    assert second.minted == {"id": "ch_1", "more": 1}
    assert second.provider_key == "provider-key-1"
    row = await row_of(connection, first.asked)
    assert row is not None
    assert (row["resource"], row["attempts"], row["fence"]) == ("ch_1", 2, 2)
    await store.complete(second, CREATED, "COMPLETED")
    assert await history_of(connection, first.asked) == ["claimed", "phase", "phase", "taken_over", "stored"]
    assert await connection.fetchval("SELECT closed_at IS NOT NULL FROM surefoot.pending_calls")
    assert not await connection.fetchval("SELECT outcome_unknown FROM surefoot.idempotency_keys")


async def test_a_failed_attempt_leaves_no_doubt_where_it_had_none(store: Store) -> None:
    first = await kept(store)
    await store.fail(first, error="The handler answered 500.", unknown=False, retry_in=SOON)
    second = await kept(store)
    assert (second.attempt, second.in_doubt, second.minted) == (2, False, {"id": "ch_1"})


async def test_doubt_stays_until_there_is_an_answer(store: Store, connection: asyncpg.Connection) -> None:
    first = await kept(store)
    await end_lease(connection, first.asked)
    second = await kept(store)
    assert second.in_doubt
    await store.fail(second, error="no", unknown=False, retry_in=SOON)
    assert (await kept(store)).in_doubt


async def test_taking_over_that_is_released_changes_nothing(store: Store, connection: asyncpg.Connection) -> None:
    first = await kept(store)
    await end_lease(connection, first.asked)
    async with await begun(store, first.asked):
        pass
    await store.complete(first, CREATED, "COMPLETED")
    assert await found(store, first.asked) == Answered(CREATED)


@pytest.mark.parametrize("what", ["phase", "complete", "fail", "forget"])
async def test_whoever_was_overtaken_writes_nothing(store: Store, connection: asyncpg.Connection, what: str) -> None:
    zombie = await kept(store)
    await end_lease(connection, zombie.asked)
    successor = await kept(store)
    with pytest.raises(FenceLost, match="Nothing of this was kept"):
        match what:
            case "phase":
                await phase(store, zombie, "charge_created", 1)
            case "complete":
                await store.complete(zombie, DECLINED, "FAILED_TERMINAL")
            case "fail":
                await store.fail(zombie, error="no", unknown=True, retry_in=SOON)
            case "forget":
                await store.forget(zombie)
    assert not await store.renew(zombie)
    assert await effects(connection) == []
    await phase(store, successor, "charge_created", 2)
    await store.complete(successor, CREATED, "COMPLETED")
    assert await found(store, zombie.asked) == Answered(CREATED)
    with pytest.raises(FenceLost):
        await store.complete(successor, DECLINED, "COMPLETED")  # nor twice


async def test_a_zombie_of_a_request_that_was_reaped_does_not_fit_the_new_one(
    store: Store, connection: asyncpg.Connection
) -> None:
    """The row was deleted and made anew, and both begin with the first fence."""
    zombie = await kept(store)
    await connection.execute("DELETE FROM surefoot.idempotency_keys")
    new = await kept(store)
    assert new.fence == zombie.fence
    with pytest.raises(FenceLost):
        await store.complete(zombie, DECLINED, "COMPLETED")
    await store.complete(new, CREATED, "COMPLETED")


async def test_a_phase_that_commits_while_it_is_taken_over_is_known_to_the_successor(
    store: Store, connection: asyncpg.Connection
) -> None:
    """The one who takes over waits for the phase's row, or is refused: it never misses the phase."""
    first = await kept(store)
    await end_lease(connection, first.asked)
    async with store.phase(first, "charge_created") as unit:
        # As the phase's last statement does: the row is locked, and its phase is not committed.
        await unit.tx.session.execute(text("UPDATE surefoot.idempotency_keys SET recovery_point = 'x'"))
        assert isinstance(await found(store, first.asked), InFlight)
        unit.result = 1
    async with await free(store, first.asked) as begins:
        assert begins.claim.phases == {"charge_created": 1}


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


# -- the lease --------------------------------------------------------------------------------------------------------


async def test_a_lease_is_renewed_as_long_as_it_may_be(store: Store, connection: asyncpg.Connection) -> None:
    claim = await kept(store)
    await connection.execute("UPDATE surefoot.idempotency_keys SET lease_until = now() + interval '1 second'")
    assert await store.renew(claim)
    left = await connection.fetchval("SELECT lease_until - now() FROM surefoot.idempotency_keys")
    assert timedelta(seconds=25) < left <= timedelta(seconds=30)
    await connection.execute(
        """UPDATE surefoot.idempotency_keys
           SET leased_at = now() - interval '170 seconds', lease_until = now() + interval '1 second'"""
    )
    assert await store.renew(claim)
    left = await connection.fetchval("SELECT lease_until - now() FROM surefoot.idempotency_keys")
    assert left <= timedelta(seconds=10)
    assert not await store.renew(claim)


async def test_a_lease_that_ran_out_is_renewed_while_nobody_has_taken_over(
    store: Store, connection: asyncpg.Connection
) -> None:
    claim = await kept(store)
    await end_lease(connection, claim.asked)
    assert await store.renew(claim)
    assert isinstance(await found(store, claim.asked), InFlight)


async def test_a_lease_can_be_compressed(database_url: str, connection: asyncpg.Connection) -> None:
    quick = IdempotencySettings(
        secrets=SETTINGS.secrets,
        lease=timedelta(milliseconds=200),
        renew_every=timedelta(milliseconds=50),
        longest_lease=timedelta(seconds=5),
        call_timeout=timedelta(seconds=1),
    )
    async with Store(database_url, quick) as store:
        claim = await kept(store)
        in_flight = await found(store, claim.asked)
        assert isinstance(in_flight, InFlight)
        assert in_flight.lease_s <= 0.2


# -- how it ends ------------------------------------------------------------------------------------------------------


async def test_a_claim_under_which_nothing_was_done_is_forgotten(store: Store, connection: asyncpg.Connection) -> None:
    claim = await kept(store)
    assert await store.forget(claim)
    assert await row_of(connection, claim.asked) is None
    assert await connection.fetchval("SELECT count(*) FROM surefoot.pending_calls") == 0
    assert await history_of(connection, claim.asked) == ["claimed", "forgotten"]
    assert (await kept(store, asked(effect="outside", body=b"other"))).attempt == 1


@pytest.mark.parametrize("how", ["phase", "doubt"])
async def test_a_claim_under_which_something_may_have_been_done_is_not(
    store: Store, connection: asyncpg.Connection, how: str
) -> None:
    claim = await kept(store)
    if how == "phase":
        await phase(store, claim, "charge_created", 1)
    else:
        await store.fail(claim, error="no", unknown=True, retry_in=SOON)
        claim = await kept(store)
    assert not await store.forget(claim)
    row = await row_of(connection, claim.asked)
    assert row is not None
    assert row["state"] == "FAILED_RETRY"
    assert row["due_at"] is not None


async def test_a_failure_says_why_and_when_it_goes_on(store: Store, connection: asyncpg.Connection) -> None:
    claim = await kept(store)
    await store.fail(claim, error="The provider\x00 said nothing.", unknown=True, retry_in=SOON)
    row = await row_of(connection, claim.asked)
    assert row is not None
    assert (row["state"], row["error"]) == ("FAILED_RETRY", "The provider� said nothing.")
    assert row["lease_until"] is None
    assert row["outcome_unknown"]
    assert await connection.fetchval("SELECT closed_at FROM surefoot.pending_calls") is None


async def test_a_failure_with_nothing_to_finish_leaves_nothing_pending(
    store: Store, connection: asyncpg.Connection
) -> None:
    claim = await kept(store)
    await store.fail(claim, error="The handler answered 500.", unknown=False, retry_in=None)
    assert await connection.fetchval("SELECT closed_at IS NOT NULL FROM surefoot.pending_calls")
    again = await kept(store)
    assert again.provider_key == "provider-key-1"
    assert await connection.fetchval("SELECT closed_at IS NULL FROM surefoot.pending_calls")


async def test_an_answer_that_comes_late_is_given_again_for_as_long(
    store: Store, connection: asyncpg.Connection
) -> None:
    claim = await kept(store)
    await age(connection, claim.asked, timedelta(hours=60))
    late = await kept(store)
    await store.complete(late, CREATED, "COMPLETED")
    row = await row_of(connection, claim.asked)
    assert row is not None
    assert row["replay_until"] - row["answered_at"] == timedelta(hours=24)
    assert row["gone_until"] - row["answered_at"] == timedelta(hours=48)
    assert await found(store, claim.asked) == Answered(CREATED)
