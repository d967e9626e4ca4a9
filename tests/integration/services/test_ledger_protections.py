"""Each protection of the ledger is taken out, and the violation that it prevents is seen."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from services.ledger import Done, Ledger, Move, Outcome, Refused, make
from services.ledger.moves import ContentionRetry
from services.ledger.statements import CLAIM, ENOUGH, LOCK, ROOM
from surefoot.consumer import Retry
from tests.support.evidence import removed
from tests.support.services.ledger_harness import eur, ledger_on, said, somebody_waits, violations, without

IN_PLACE = "PROTECTED"
SLOWLY = "pg_sleep(0.3) FROM ledger.accounts AS account JOIN sides"


@pytest.fixture
async def ledger(empty_database_url: str) -> AsyncIterator[Ledger]:
    """Two wallets of 100 EUR each, that hold 150 EUR at most. Nothing is tried again."""
    async with ledger_on(empty_database_url, retry=ContentionRetry(Retry(attempts=1))) as ledger:
        for name in ("a", "b"):
            await ledger.open(name, "EUR", cap=eur("150.00"))
            await ledger.credit(name, eur("100.00"), operation_id=f"first:{name}")
        yield ledger


async def transfers(ledger: Ledger, *moves: tuple[str, str, str]) -> list[Outcome]:
    """All at once."""
    return await asyncio.gather(
        *(
            ledger.transfer(source, target, eur(amount), operation_id=f"{number}")
            for number, (source, target, amount) in enumerate(moves)
        )
    )


async def test_without_the_condition_on_what_there_is_an_account_goes_below_zero(
    ledger: Ledger, empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await ledger.transfer("a", "b", eur("49.00"), operation_id="fits") == Done(eur("51.00"))
    assert await ledger.debit("a", eur("51.01"), operation_id="much") == Refused("INSUFFICIENT")
    assert await violations(empty_database_url) == set()

    removed("ledger.funds")
    without(monkeypatch, ENOUGH, "true")
    with pytest.raises(IntegrityError, match="accounts_balance"):  # the database's own word stands behind it
        await ledger.debit("a", eur("51.01"), operation_id="again")
    await said(empty_database_url, "ALTER TABLE ledger.accounts DROP CONSTRAINT accounts_balance")
    assert await ledger.debit("a", eur("51.01"), operation_id="again") == Done(eur("-0.01"))
    assert await violations(empty_database_url) == {"below_zero"}


async def test_without_the_condition_on_the_cap_an_account_holds_more_than_it_may(
    ledger: Ledger, empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await ledger.transfer("a", "b", eur("50.01"), operation_id="much") == Refused("CAP_EXCEEDED")

    removed("ledger.cap")
    without(monkeypatch, ROOM, "true")
    with pytest.raises(IntegrityError, match="accounts_cap"):
        await ledger.transfer("a", "b", eur("50.01"), operation_id="again")
    await said(empty_database_url, "ALTER TABLE ledger.accounts DROP CONSTRAINT accounts_cap")
    assert await ledger.transfer("a", "b", eur("50.01"), operation_id="again") == Done(eur("49.99"))
    assert await violations(empty_database_url) == {"above_cap"}


async def test_without_the_claim_an_operation_that_is_repeated_moves_twice(
    ledger: Ledger, empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):
        assert await ledger.transfer("a", "b", eur("1.00"), operation_id="same") == Done(eur("99.00"))
    assert await violations(empty_database_url) == set()

    removed("ledger.claim")
    without(monkeypatch, CLAIM, "")
    with pytest.raises(IntegrityError, match="operations_pkey"):
        await ledger.transfer("a", "b", eur("1.00"), operation_id="same")
    await said(
        empty_database_url,
        "ALTER TABLE ledger.operations DROP CONSTRAINT operations_pkey CASCADE; "
        "ALTER TABLE ledger.entries DROP CONSTRAINT entries_once",
    )
    assert await ledger.transfer("a", "b", eur("1.00"), operation_id="same") == Done(eur("98.00"))
    assert "moved_twice" in await violations(empty_database_url)


@pytest.mark.slow
@pytest.mark.parametrize("order", [IN_PLACE, "ORDER BY sides.change FOR NO KEY UPDATE OF account"])
async def test_without_the_order_of_the_locks_opposite_transfers_deadlock(
    ledger: Ledger, order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pause before each lock lets the two meet: in the order of their names, one waits for the other; the giver
    first, each has what the other wants."""
    without(monkeypatch, "sides.change\n    FROM ledger.accounts AS account JOIN sides", f"sides.change, {SLOWLY}")
    if order != IN_PLACE:
        removed("ledger.lock_order")
        without(monkeypatch, LOCK, order)
    outcomes = await transfers(ledger, ("a", "b", "1.00"), ("b", "a", "1.00"))
    assert outcomes.count(Refused("CONFLICT")) == (0 if order == IN_PLACE else 1)
    assert sum(isinstance(outcome, Done) for outcome in outcomes) == (2 if order == IN_PLACE else 1)


@pytest.mark.parametrize("lock", [IN_PLACE, ""])
async def test_without_the_lock_a_change_in_between_is_lost(
    ledger: Ledger, empty_database_url: str, lock: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if lock != IN_PLACE:
        removed("ledger.lock")
        without(monkeypatch, LOCK, lock)
    async with AsyncSession(ledger._engine) as first:
        assert await make(first, Move("first", "a", "b", eur("30.00"))) == Done(eur("70.00"))
        second = asyncio.create_task(ledger.debit("a", eur("90.00"), operation_id="second"))
        await somebody_waits(empty_database_url)
        await first.commit()
    if lock == IN_PLACE:
        assert await second == Refused("INSUFFICIENT")
        assert await violations(empty_database_url) == set()
    else:
        assert await second == Done(eur("10.00"))
        assert await violations(empty_database_url) == {"differs"}


@pytest.mark.parametrize("missing", ["WHERE sides.change > 0 AND", "WHERE sides.change < 0 AND", "WHERE false AND"])
async def test_without_the_databases_check_an_operation_is_not_balanced(
    ledger: Ledger, empty_database_url: str, missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    without(
        monkeypatch,
        "ON moved.account_id = sides.account_id\n    WHERE",
        f"ON moved.account_id = sides.account_id\n    {missing}",
    )
    with pytest.raises(IntegrityError, match=r"do not sum to zero|is DONE and has 0 entries"):
        await ledger.transfer("a", "b", eur("1.00"), operation_id="one-sided")
    assert await ledger.balance("a") == eur("100.00")
    removed("ledger.balance_check")
    await said(
        empty_database_url,
        "DROP TRIGGER balanced ON ledger.operations; DROP TRIGGER balanced ON ledger.entries",
    )
    await ledger.transfer("a", "b", eur("1.00"), operation_id="one-sided")
    found = await violations(empty_database_url)
    assert found == {"not_as_asked", "differs"} | ({"unbalanced"} if "change" in missing else set())
