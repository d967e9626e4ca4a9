"""The ledger on a real database: never below nothing, never above the cap, nothing twice, nothing lost."""

import asyncio
from collections.abc import AsyncIterator
from decimal import Decimal
from typing import get_args

import asyncpg
import pytest
from prometheus_client import REGISTRY
from sqlalchemy.ext.asyncio import AsyncSession

from services.ledger import (
    AccountFrozen,
    Done,
    Ledger,
    Move,
    OperationReused,
    Refused,
    UnknownAccount,
    make,
    open_account,
)
from services.ledger.move import Reason
from services.ledger.moves import ContentionRetry
from surefoot.consumer import Retry
from surefoot.events import Money
from surefoot.events.money import CurrencyMismatch
from tests.support.services.ledger_harness import eur, ledger_on, violations

WRITERS = 16


@pytest.fixture
async def ledger(empty_database_url: str) -> AsyncIterator[Ledger]:
    """With a wallet of 100 EUR, and a shop that holds 150 EUR at most."""
    async with ledger_on(empty_database_url, connections=WRITERS) as ledger:
        await ledger.open("wallet", "EUR")
        await ledger.open("shop", "EUR", cap=eur("150.00"))
        await ledger.credit("wallet", eur("100.00"), operation_id="first")
        yield ledger


@pytest.fixture
async def connection(empty_database_url: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(empty_database_url)
    yield connection
    await connection.close()


async def test_decimals_go_in_and_come_out(ledger: Ledger) -> None:
    assert await ledger.debit("wallet", eur("19.99"), operation_id="a") == Done(eur("80.01"))
    assert (await ledger.balance("wallet")).amount == Decimal("80.01")
    assert await ledger.credit("wallet", eur("0.02"), operation_id="b") == Done(eur("80.03"))


async def test_more_than_there_is_is_refused_and_changes_nothing(ledger: Ledger) -> None:
    assert await ledger.debit("wallet", eur("100.01"), operation_id="a") == Refused("INSUFFICIENT")
    assert await ledger.debit("wallet", eur("100.00"), operation_id="b") == Done(eur("0.00"))


async def test_more_than_the_cap_is_refused_and_changes_nothing(ledger: Ledger) -> None:
    assert await ledger.credit("shop", eur("150.01"), operation_id="a") == Refused("CAP_EXCEEDED")
    assert await ledger.credit("shop", eur("150.00"), operation_id="b") == Done(eur("150.00"))


async def test_a_transfer_changes_both_or_neither(ledger: Ledger) -> None:
    assert await ledger.transfer("wallet", "shop", eur("60.00"), operation_id="a") == Done(eur("40.00"))
    assert await ledger.transfer("wallet", "shop", eur("40.01"), operation_id="b") == Refused("INSUFFICIENT")
    await ledger.credit("wallet", eur("100.00"), operation_id="c")
    assert await ledger.transfer("wallet", "shop", eur("90.01"), operation_id="d") == Refused("CAP_EXCEEDED")
    assert (await ledger.balance("wallet"), await ledger.balance("shop")) == (eur("140.00"), eur("60.00"))


async def test_the_same_operation_twice_gets_the_first_outcome_and_changes_nothing(ledger: Ledger) -> None:
    assert await ledger.debit("wallet", eur("30.00"), operation_id="a") == Done(eur("70.00"))
    await ledger.debit("wallet", eur("10.00"), operation_id="b")
    assert await ledger.debit("wallet", eur("30.00"), operation_id="a") == Done(eur("70.00"))
    assert await ledger.transfer("wallet", "shop", eur("5.00"), operation_id="t") == Done(eur("55.00"))
    assert await ledger.transfer("wallet", "shop", eur("5.00"), operation_id="t") == Done(eur("55.00"))
    assert await ledger.balance("wallet") == eur("55.00")


async def test_a_refusal_is_the_outcome_of_its_operation_for_good(ledger: Ledger) -> None:
    assert await ledger.debit("wallet", eur("500.00"), operation_id="a") == Refused("INSUFFICIENT")
    await ledger.credit("wallet", eur("900.00"), operation_id="b")
    assert await ledger.debit("wallet", eur("500.00"), operation_id="a") == Refused("INSUFFICIENT")
    assert await ledger.balance("wallet") == eur("1000.00")


async def test_the_same_id_for_something_else_is_an_error(ledger: Ledger) -> None:
    await ledger.debit("wallet", eur("1.00"), operation_id="a")
    with pytest.raises(OperationReused, match="each move needs an id of its own"):
        await ledger.debit("wallet", eur("2.00"), operation_id="a")
    with pytest.raises(OperationReused):
        await ledger.credit("wallet", eur("1.00"), operation_id="a")


async def test_unknown_frozen_and_foreign_accounts_are_errors_and_leave_the_id_free(ledger: Ledger) -> None:
    with pytest.raises(UnknownAccount, match="nobody"):
        await ledger.debit("nobody", eur("1.00"), operation_id="a")
    with pytest.raises(UnknownAccount, match="nobody"):
        await ledger.transfer("wallet", "nobody", eur("1.00"), operation_id="a")
    with pytest.raises(CurrencyMismatch):
        await ledger.debit("wallet", Money(1, "USD"), operation_id="a")
    await ledger.freeze("wallet")
    with pytest.raises(AccountFrozen):
        await ledger.debit("wallet", eur("1.00"), operation_id="a")
    assert await ledger.credit("wallet", eur("100.00"), operation_id="first") == Done(eur("100.00"))  # made before
    await ledger.release("wallet")
    assert await ledger.debit("wallet", eur("1.00"), operation_id="a") == Done(eur("99.00"))


@pytest.mark.slow
async def test_many_at_once_never_go_below_nothing_nor_above_the_cap(ledger: Ledger, empty_database_url: str) -> None:
    async def writer(number: int) -> list[object]:
        return [
            await ledger.transfer("wallet", "shop", eur("0.70"), operation_id=f"{number}:{turn}:there")
            if (number + turn) % 3
            else await ledger.transfer("shop", "wallet", eur("0.40"), operation_id=f"{number}:{turn}:back")
            for turn in range(40)
        ]

    outcomes = [one for many in await asyncio.gather(*(writer(number) for number in range(WRITERS))) for one in many]
    assert {type(one) for one in outcomes} == {Done, Refused}
    assert {one.reason for one in outcomes if isinstance(one, Refused)} == {"INSUFFICIENT"}
    assert await ledger.balance("wallet") + await ledger.balance("shop") == eur("100.00")
    assert await violations(empty_database_url) == set()


async def test_many_debits_at_once_take_what_there_is_and_no_more(ledger: Ledger) -> None:
    outcomes = await asyncio.gather(
        *(ledger.debit("wallet", eur("9.00"), operation_id=f"d{number}") for number in range(WRITERS))
    )
    assert sum(isinstance(one, Done) for one in outcomes) == 11
    assert [one for one in outcomes if not isinstance(one, Done)] == [Refused("INSUFFICIENT")] * 5
    assert await ledger.balance("wallet") == eur("1.00")


async def test_many_credits_at_once_fill_the_account_to_its_cap(ledger: Ledger) -> None:
    outcomes = await asyncio.gather(
        *(ledger.credit("shop", eur("20.00"), operation_id=f"c{number}") for number in range(WRITERS))
    )
    assert sum(isinstance(one, Done) for one in outcomes) == 7
    assert await ledger.balance("shop") == eur("140.00")


async def test_many_at_once_with_one_operation_id_change_it_once(ledger: Ledger) -> None:
    debits = [ledger.debit("wallet", eur("9.00"), operation_id="same") for _ in range(WRITERS)]
    assert await asyncio.gather(*debits) == [Done(eur("91.00"))] * WRITERS
    transfers = [ledger.transfer("wallet", "shop", eur("1.00"), operation_id="t") for _ in range(WRITERS)]
    assert await asyncio.gather(*transfers) == [Done(eur("90.00"))] * WRITERS
    assert (await ledger.balance("wallet"), await ledger.balance("shop")) == (eur("90.00"), eur("1.00"))


class Sleeper:
    def __init__(self) -> None:
        self.rests: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.rests.append(seconds)


FAILING = """
    CREATE SEQUENCE ledger.failures;
    CREATE FUNCTION ledger.fail() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF nextval('ledger.failures') <= {times} THEN RAISE EXCEPTION 'not now' USING ERRCODE = '{sqlstate}'; END IF;
        RETURN NEW;
    END $$;
    CREATE TRIGGER failing BEFORE UPDATE ON ledger.accounts FOR EACH ROW EXECUTE FUNCTION ledger.fail();
"""


async def failing(ledger: Ledger, connection: asyncpg.Connection, times: int, sqlstate: str) -> Sleeper:
    """Let the next changes of a balance fail so many times; the sleeper that its retries rest with."""
    await connection.execute(FAILING.format(times=times, sqlstate=sqlstate))
    sleeper = Sleeper()
    ledger._retry = ContentionRetry(sleep=sleeper, chance=lambda: 0.0)
    return sleeper


@pytest.mark.parametrize("sqlstate", ["40001", "40P01", "53300"])
async def test_what_can_be_tried_again_is_with_longer_rests(
    ledger: Ledger, connection: asyncpg.Connection, sqlstate: str
) -> None:
    sleeper = await failing(ledger, connection, 3, sqlstate)
    assert await ledger.debit("wallet", eur("1.00"), operation_id="a") == Done(eur("99.00"))
    assert sleeper.rests == pytest.approx([0.05, 0.1, 0.2])


@pytest.mark.parametrize(("sqlstate", "reason"), [("40001", "CONFLICT"), ("53300", "THROTTLED")])
async def test_it_is_not_tried_for_ever_and_the_id_stays_free(
    ledger: Ledger, connection: asyncpg.Connection, sqlstate: str, reason: str
) -> None:
    sleeper = await failing(ledger, connection, 4, sqlstate)
    outcome = await ledger.debit("wallet", eur("1.00"), operation_id="a")
    assert isinstance(outcome, Refused)
    assert outcome.reason == reason
    assert len(sleeper.rests) == 3
    assert await ledger.debit("wallet", eur("1.00"), operation_id="a") == Done(eur("99.00"))


async def test_an_answer_is_not_tried_again_and_a_bug_is_raised(ledger: Ledger, connection: asyncpg.Connection) -> None:
    sleeper = await failing(ledger, connection, 1, "22012")
    assert await ledger.debit("wallet", eur("500.00"), operation_id="a") == Refused("INSUFFICIENT")
    with pytest.raises(Exception, match="not now"):
        await ledger.debit("wallet", eur("1.00"), operation_id="b")
    assert sleeper.rests == []


@pytest.mark.slow
async def test_a_lock_that_is_not_to_be_had_is_throttling(ledger: Ledger, connection: asyncpg.Connection) -> None:
    ledger._retry = ContentionRetry(Retry(attempts=1))
    async with connection.transaction():
        await connection.execute("SELECT FROM ledger.accounts WHERE account_id = 'wallet' FOR UPDATE")
        assert await ledger.debit("wallet", eur("1.00"), operation_id="a") == Refused("THROTTLED")
    assert await ledger.debit("wallet", eur("1.00"), operation_id="a") == Done(eur("99.00"))


async def test_every_refusal_is_counted_by_its_reason_and_the_first_outcome_told_again_is_not(
    ledger: Ledger, connection: asyncpg.Connection
) -> None:
    before = counted()
    for _ in range(2):
        await ledger.debit("wallet", eur("100.01"), operation_id="much")
    await ledger.credit("shop", eur("150.01"), operation_id="more")
    await failing(ledger, connection, 2, "40P01")
    await ledger.debit("wallet", eur("1.00"), operation_id="a")
    assert {reason: now - before[reason] for reason, now in counted().items()} == {
        "INSUFFICIENT": 1,
        "CAP_EXCEEDED": 1,
        "CONFLICT": 2,
        "THROTTLED": 0,
    }


async def test_opening_an_account_again_waits_for_nobody_who_uses_it(ledger: Ledger) -> None:
    async with AsyncSession(ledger._engine) as session:
        await make(session, Move("a", "wallet", None, eur("1.00")))
        await ledger.open("wallet", "EUR")
        with pytest.raises(CurrencyMismatch, match="is there already, in EUR"):
            await ledger.open("wallet", "USD")
        await open_account(session, "new", "EUR")
        await make(session, Move("b", "wallet", "new", eur("1.00")))
        await session.commit()
    assert await ledger.balance("new") == eur("1.00")


def counted() -> dict[str, float]:
    name = "surefoot_ledger_refused_total"
    return {reason: REGISTRY.get_sample_value(name, {"reason": reason}) or 0 for reason in get_args(Reason)}
