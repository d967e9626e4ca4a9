"""A claim for an outside effect: phase by phase, under its fence, and taken over by a later attempt."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import asyncpg
import pytest
from sqlalchemy import text

from surefoot.consumer import HandlerMisuse
from surefoot.idempotency.store import Store
from surefoot.idempotency.values import Answered, Claim, FenceLost, InFlight, Note, PhaseMisuse
from tests.support.event_types import ThingHappened
from tests.support.idempotency.store_requests import (
    CREATED,
    DECLINED,
    REQUEST,
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


async def test_a_phase_is_its_work_its_events_and_its_result_and_is_done_once(
    store: Store, connection: asyncpg.Connection
) -> None:
    claim = await kept(store)
    await phase(store, claim, "charge_created", 1, {"row": [1, None, "é"]})
    with pytest.raises(PhaseMisuse, match="'charge_created' was done before"):
        await phase(store, claim, "charge_created", 2)
    with pytest.raises(PhaseMisuse, match="The result of phase 'finished' cannot be stored"):
        await phase(store, claim, "finished", 3, {"when": object()})
    assert await effects(connection) == [1]
    assert await connection.fetchval("SELECT count(*) FROM surefoot.outbox_events") == 1
    assert await connection.fetchval("SELECT recovery_point FROM surefoot.idempotency_keys") == "charge_created"


async def test_what_cannot_be_read_back_cannot_be_minted(store: Store, connection: asyncpg.Connection) -> None:
    async with await begun(store, asked(effect="outside")) as begins:
        with pytest.raises(PhaseMisuse, match="What was minted cannot be stored"):
            await begins.keep({"id": object()}, None, "pk_1", REQUEST)
    assert await row_of(connection, asked(effect="outside")) is None


async def test_a_phase_that_ends_its_transaction_is_found_out(store: Store, connection: asyncpg.Connection) -> None:
    claim = await kept(store)
    with pytest.raises(HandlerMisuse, match="nobody knows what of it stays"):
        async with store.phase(claim, "charge_created") as unit:
            raw = await (await unit.tx.session.connection()).get_raw_connection()
            await raw.driver_connection.execute("ROLLBACK; BEGIN")  # type: ignore[union-attr]
    assert await connection.fetchval("SELECT recovery_point FROM surefoot.idempotency_keys") is None


async def test_calls_are_counted_and_noted_with_phases_and_the_answer(
    store: Store, connection: asyncpg.Connection
) -> None:
    claim = await kept(store)
    await store.note(claim, Note("called", {"call": "capture"}))
    async with store.phase(claim, "settled") as unit:
        unit.notes.append(Note("replied", {"call": "capture"}))
    await store.complete(claim, CREATED, "COMPLETED", [Note("replied", {"call": "other"})])
    assert await history_of(connection, claim.asked) == ["claimed", "called", "replied", "phase", "replied", "stored"]
    assert await connection.fetchval("SELECT calls FROM surefoot.pending_calls") == 1


# -- who comes after --------------------------------------------------------------------------------------------------


async def test_a_request_takes_over_what_was_abandoned(store: Store, connection: asyncpg.Connection) -> None:
    first = await kept(store, id="ch_1")
    await phase(store, first, "charge_created", 1, {"row": 1})
    await end_lease(connection, first.asked)
    async with await begun(store, first.asked) as begins:
        assert begins.claim.in_doubt
        second = await begins.keep({"id": "other", "more": 1}, None, "other-provider-key", REQUEST)
    assert (second.minted, second.provider_key) == ({"id": "ch_1", "more": 1}, "provider-key-1")
    row = await row_of(connection, first.asked)
    assert row is not None
    assert (row["resource"], row["attempts"], row["fence"]) == ("ch_1", 2, 2)
    await store.complete(second, CREATED, "COMPLETED")
    assert await history_of(connection, first.asked) == ["claimed", "phase", "taken_over", "stored"]
    assert await connection.fetchval("SELECT closed_at IS NOT NULL FROM surefoot.pending_calls")
    assert not await connection.fetchval("SELECT outcome_unknown FROM surefoot.idempotency_keys")


async def test_doubt_comes_from_a_process_that_died_and_stays_until_there_is_an_answer(
    store: Store, connection: asyncpg.Connection
) -> None:
    await store.fail(await kept(store), error="The handler answered 500.", unknown=False, retry_in=SOON)
    second = await kept(store)
    assert not second.in_doubt
    await end_lease(connection, second.asked)
    third = await kept(store)
    assert third.in_doubt
    await store.fail(third, error="no", unknown=False, retry_in=SOON)
    assert (await kept(store)).in_doubt


WRITES: dict[str, Callable[[Store, Claim], Awaitable[object]]] = {
    "phase": lambda store, claim: phase(store, claim, "charge_created", 1),
    "complete": lambda store, claim: store.complete(claim, DECLINED, "FAILED_TERMINAL"),
    "fail": lambda store, claim: store.fail(claim, error="no", unknown=True, retry_in=SOON),
    "forget": lambda store, claim: store.forget(claim),
}


async def test_a_process_that_was_overtaken_writes_nothing(store: Store, connection: asyncpg.Connection) -> None:
    zombie = await kept(store)
    await end_lease(connection, zombie.asked)
    successor = await kept(store)
    for name, write in WRITES.items():
        with pytest.raises(FenceLost, match="Nothing of this was kept"):
            await write(store, zombie)
            pytest.fail(f"{name} was written")
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


async def test_a_lease_is_renewed_as_long_as_it_may_be(store: Store, connection: asyncpg.Connection) -> None:
    """Also when it ran out, as long as no other attempt has taken over."""
    claim = await kept(store)
    left = "SELECT lease_until - now() FROM surefoot.idempotency_keys"
    await end_lease(connection, claim.asked)
    assert await store.renew(claim)
    assert timedelta(seconds=25) < await connection.fetchval(left) <= timedelta(seconds=30)
    await connection.execute(
        """UPDATE surefoot.idempotency_keys
           SET leased_at = now() - interval '170 seconds', lease_until = now() + interval '1 second'"""
    )
    assert await store.renew(claim)
    assert await connection.fetchval(left) <= timedelta(seconds=10)
    assert not await store.renew(claim)


# -- how it ends ------------------------------------------------------------------------------------------------------


async def test_a_claim_under_which_nothing_was_done_is_forgotten(store: Store, connection: asyncpg.Connection) -> None:
    claim = await kept(store)
    assert await store.forget(claim)
    assert await row_of(connection, claim.asked) is None
    assert await connection.fetchval("SELECT count(*) FROM surefoot.pending_calls") == 0
    assert await history_of(connection, claim.asked) == ["claimed", "forgotten"]


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


async def test_a_failure_says_why_and_leaves_a_call_pending_if_it_is_to_be_gone_on_with(
    store: Store, connection: asyncpg.Connection
) -> None:
    is_closed = "SELECT closed_at IS NOT NULL FROM surefoot.pending_calls"
    claim = await kept(store)
    await store.fail(claim, error="The handler answered 500.", unknown=False, retry_in=None)
    assert await connection.fetchval(is_closed)
    again = await kept(store)
    assert again.provider_key == "provider-key-1"
    assert not await connection.fetchval(is_closed)
    await store.fail(again, error="The provider\x00 said nothing.", unknown=True, retry_in=SOON)
    row = await row_of(connection, claim.asked)
    assert row is not None
    assert (row["state"], row["error"]) == ("FAILED_RETRY", "The provider� said nothing.")
    assert row["lease_until"] is None
    assert row["outcome_unknown"]
    assert not await connection.fetchval(is_closed)
