"""Moves within a transaction of the caller's: undone with it, and tried again without ending it."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from services.ledger import Contended, Done, Ledger, Move, Refused, make, make_patiently
from services.ledger.moves import ContentionRetry
from surefoot.consumer import Retry
from tests.support.services.ledger_harness import eur, ledger_on, somebody_waits, violations

QUICK = text("SET LOCAL lock_timeout = '50ms'")


@pytest.fixture
async def ledger(empty_database_url: str) -> AsyncIterator[Ledger]:
    """Two wallets of 100 EUR each."""
    async with ledger_on(empty_database_url) as ledger:
        for name in ("a", "b"):
            await ledger.open(name, "EUR")
            await ledger.credit(name, eur("100.00"), operation_id=f"first:{name}")
        yield ledger


async def test_a_move_is_undone_with_its_transaction(ledger: Ledger) -> None:
    async with AsyncSession(ledger._engine) as session:
        assert await make(session, Move("x", "a", None, eur("5.00"))) == Done(eur("95.00"))
        await session.rollback()
    assert await ledger.debit("a", eur("6.00"), operation_id="x") == Done(eur("94.00"))


async def test_a_move_is_undone_with_its_savepoint_alone(ledger: Ledger, empty_database_url: str) -> None:
    async with AsyncSession(ledger._engine) as session:
        assert await make(session, Move("kept", "a", "b", eur("1.00"))) == Done(eur("99.00"))
        async with session.begin_nested() as savepoint:
            assert await make(session, Move("undone", "a", "b", eur("2.00"))) == Done(eur("97.00"))
            await savepoint.rollback()
        await session.commit()
    assert (await ledger.balance("a"), await ledger.balance("b")) == (eur("99.00"), eur("101.00"))
    assert await violations(empty_database_url) == set()


async def test_several_moves_of_one_transaction_are_seen_together(ledger: Ledger) -> None:
    async with AsyncSession(ledger._engine) as session:
        await make(session, Move("there", "a", "b", eur("30.00")))
        assert await make(session, Move("back", "b", "a", eur("130.00"))) == Done(eur("0.00"))
        assert await ledger.balance("a") == eur("100.00")
        await session.commit()
    assert await ledger.balance("a") == eur("200.00")


async def test_the_refusal_of_one_move_leaves_the_transaction_usable(ledger: Ledger) -> None:
    async with AsyncSession(ledger._engine) as session:
        assert await make(session, Move("much", "a", "b", eur("100.01"))) == Refused("INSUFFICIENT")
        assert await make(session, Move("some", "a", "b", eur("1.00"))) == Done(eur("99.00"))
        await session.commit()
    assert await ledger.transfer("a", "b", eur("100.01"), operation_id="much") == Refused("INSUFFICIENT")


async def test_a_lock_that_is_not_to_be_had_is_tried_again_in_the_same_transaction(ledger: Ledger) -> None:
    """It is given free while the second rest is taken."""
    rests: list[float] = []
    async with AsyncSession(ledger._engine) as other, AsyncSession(ledger._engine) as mine:
        await make(other, Move("other", "a", "b", eur("1.00")))

        async def sleep(seconds: float) -> None:
            rests.append(seconds)
            if len(rests) == 2:
                await other.commit()

        await mine.execute(QUICK)
        retry = ContentionRetry(sleep=sleep, chance=lambda: 0.0)
        assert await make_patiently(mine, Move("mine", "a", "b", eur("5.00")), retry) == Done(eur("94.00"))
        await mine.commit()
    assert rests == pytest.approx([0.05, 0.1])
    assert await ledger.balance("b") == eur("106.00")


async def test_what_is_not_to_be_had_at_all_is_said_and_the_transaction_goes_on(ledger: Ledger) -> None:
    retry = ContentionRetry(Retry(attempts=2, first=timedelta(milliseconds=1)))
    async with AsyncSession(ledger._engine) as other, AsyncSession(ledger._engine) as mine:
        await make(other, Move("other", "a", None, eur("1.00")))
        await mine.execute(QUICK)
        assert await make_patiently(mine, Move("mine", "a", "b", eur("5.00")), retry) == Refused("THROTTLED")
        assert await make_patiently(mine, Move("beside", "b", None, eur("5.00")), retry) == Done(eur("95.00"))
        await mine.commit()
        await other.rollback()
    assert await ledger.transfer("a", "b", eur("5.00"), operation_id="mine") == Done(eur("95.00"))


async def test_two_transactions_of_several_moves_that_deadlock_are_a_conflict_for_one_of_them(
    ledger: Ledger, empty_database_url: str
) -> None:
    """The order within one move cannot help who makes several: the whole transaction is to be tried again."""
    async with AsyncSession(ledger._engine) as one, AsyncSession(ledger._engine) as two:
        await make(one, Move("1a", "a", None, eur("1.00")))
        await make(two, Move("2b", "b", None, eur("1.00")))
        waiting = asyncio.create_task(make(one, Move("1b", "b", None, eur("1.00"))))
        await somebody_waits(empty_database_url)
        results = await asyncio.gather(waiting, make(two, Move("2a", "a", None, eur("1.00"))), return_exceptions=True)
        (lost,) = (result for result in results if isinstance(result, Contended))
        assert lost.reason == "CONFLICT"
    assert await violations(empty_database_url) == set()


async def test_a_stricter_isolation_level_turns_a_change_in_between_into_a_conflict(ledger: Ledger) -> None:
    async with AsyncSession(ledger._engine) as session:
        await session.connection(execution_options={"isolation_level": "REPEATABLE READ"})
        await session.execute(text("SELECT balance FROM ledger.accounts"))
        await ledger.transfer("b", "a", eur("1.00"), operation_id="in between")
        with pytest.raises(Contended) as lost:
            await make(session, Move("mine", "a", "b", eur("1.00")))
        assert lost.value.reason == "CONFLICT"
    assert await ledger.transfer("a", "b", eur("1.00"), operation_id="mine") == Done(eur("100.00"))
