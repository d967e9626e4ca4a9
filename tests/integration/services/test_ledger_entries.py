"""Double entry on a real database: two entries for every move, only added, and the statement that they make up."""

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest
from sqlalchemy.ext.asyncio import AsyncSession

from services.ledger import Done, InvalidName, Ledger, Move, Refused, UnknownAccount, make, statement_of
from services.ledger.ledger import Line
from surefoot.events import Money
from surefoot.events.money import MAX_MINOR_UNITS
from tests.support.services.ledger_harness import eur, ledger_on, said, violations


@pytest.fixture
async def ledger(empty_database_url: str) -> AsyncIterator[Ledger]:
    """With a wallet and a shop, both empty."""
    async with ledger_on(empty_database_url) as ledger:
        await ledger.open("wallet", "EUR")
        await ledger.open("shop", "EUR")
        yield ledger


@pytest.fixture
async def connection(empty_database_url: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(empty_database_url)
    yield connection
    await connection.close()


async def test_every_move_has_two_entries_that_sum_to_zero(ledger: Ledger, connection: asyncpg.Connection) -> None:
    await ledger.credit("wallet", eur("10.00"), operation_id="in")
    await ledger.transfer("wallet", "shop", eur("4.00"), operation_id="pay")
    await ledger.debit("shop", eur("1.00"), operation_id="out")
    await ledger.debit("shop", eur("9.00"), operation_id="much")
    rows = await connection.fetch("SELECT operation_id, account_id, change FROM ledger.entries ORDER BY 1, 3")
    assert [tuple(row) for row in rows] == [
        ("in", "outside:EUR", -1000),
        ("in", "wallet", 1000),
        ("out", "shop", -100),
        ("out", "outside:EUR", 100),
        ("pay", "wallet", -400),
        ("pay", "shop", 400),
    ]


async def test_the_world_outside_is_there_when_it_is_needed_and_owes_what_came_in(ledger: Ledger) -> None:
    with pytest.raises(UnknownAccount):
        await ledger.balance("outside:EUR")
    await ledger.credit("wallet", eur("10.00"), operation_id="in")
    await ledger.debit("wallet", eur("3.00"), operation_id="out")
    assert await ledger.balance("outside:EUR") == eur("-7.00")
    with pytest.raises(InvalidName, match="stands for the world outside"):
        await ledger.open("outside:USD", "USD")
    with pytest.raises(InvalidName):
        await ledger.freeze("outside:EUR")


async def test_many_who_need_the_world_outside_first_make_it_once(ledger: Ledger, empty_database_url: str) -> None:
    puts = [ledger.credit("wallet", eur("1.00"), operation_id=f"{number}") for number in range(8)]
    outcomes = await asyncio.gather(*puts)
    assert sorted(done.balance.minor_units for done in outcomes if isinstance(done, Done)) == list(range(100, 900, 100))
    assert await violations(empty_database_url) == set()


async def test_nobody_waits_at_the_world_outside(ledger: Ledger) -> None:
    """Whoever puts money into one account does not wait for who puts some into another one."""
    await ledger.credit("wallet", eur("1.00"), operation_id="first")
    async with AsyncSession(ledger._engine) as slow:
        await make(slow, Move("slow", None, "wallet", eur("1.00")))
        assert await ledger.credit("shop", eur("1.00"), operation_id="quick") == Done(eur("1.00"))
        await slow.commit()


async def test_other_currencies_have_a_world_of_their_own(ledger: Ledger, empty_database_url: str) -> None:
    await ledger.open("yen", "JPY")
    await ledger.credit("yen", Money(500, "JPY"), operation_id="in")
    assert await ledger.balance("outside:JPY") == Money(-500, "JPY")
    assert await violations(empty_database_url) == set()


async def test_the_largest_amount_there_is_fits_and_not_one_more(ledger: Ledger) -> None:
    most = Money.minor(MAX_MINOR_UNITS, "EUR")
    assert await ledger.credit("wallet", most, operation_id="most") == Done(most)
    assert await ledger.credit("wallet", eur("0.01"), operation_id="more") == Refused("CAP_EXCEEDED")
    assert await ledger.transfer("wallet", "shop", most, operation_id="all") == Done(eur("0.00"))


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE ledger.entries SET change = 1",
        "DELETE FROM ledger.entries",
        "TRUNCATE ledger.entries",
        "UPDATE ledger.operations SET outcome = 'INSUFFICIENT'",
        "DELETE FROM ledger.operations",
    ],
)
async def test_what_was_written_is_not_changed(ledger: Ledger, empty_database_url: str, change: str) -> None:
    await ledger.credit("wallet", eur("1.00"), operation_id="in")
    with pytest.raises(asyncpg.RaiseError, match="move the money back instead"):
        await said(empty_database_url, change)


async def test_an_entry_that_somebody_adds_later_is_refused(ledger: Ledger, empty_database_url: str) -> None:
    await ledger.credit("wallet", eur("1.00"), operation_id="in")
    add = "INSERT INTO ledger.entries (operation_id, account_id, currency, change) VALUES ('in', 'shop', '{}', 5)"
    with pytest.raises(asyncpg.CheckViolationError, match="the entries of operation in do not sum to zero"):
        await said(empty_database_url, add.format("EUR"))
    with pytest.raises(asyncpg.ForeignKeyViolationError):
        await said(empty_database_url, add.format("USD"))


async def test_a_statement_shows_what_came_what_went_and_what_was_left(ledger: Ledger) -> None:
    await ledger.credit("wallet", eur("10.00"), operation_id="in")
    await ledger.transfer("wallet", "shop", eur("4.00"), operation_id="pay")
    await ledger.transfer("wallet", "shop", eur("40.00"), operation_id="much")
    lines = await ledger.statement_of("wallet")
    assert [shown(line) for line in lines] == [
        ("in", "outside:EUR", eur("10.00"), eur("10.00")),
        ("pay", "shop", eur("-4.00"), eur("6.00")),
    ]
    assert lines[0].at <= lines[1].at
    assert [shown(line) for line in await ledger.statement_of("shop")] == [("pay", "wallet", eur("4.00"), eur("4.00"))]
    assert [shown(line) for line in await ledger.statement_of("outside:EUR")] == [
        ("in", "wallet", eur("-10.00"), None),
    ]


async def test_a_statement_can_be_of_the_last_lines_alone_and_within_a_transaction(ledger: Ledger) -> None:
    for number in range(5):
        await ledger.credit("wallet", eur("1.00"), operation_id=f"in-{number}")
    async with AsyncSession(ledger._engine) as session:
        await make(session, Move("mine", "wallet", "shop", eur("2.00")))
        lines = await statement_of(session, "wallet", limit=2)
    assert [line.operation_id for line in lines] == ["in-4", "mine"]
    assert [line.operation_id for line in await ledger.statement_of("wallet", limit=1)] == ["in-4"]


async def test_an_account_without_lines_has_none_and_an_unknown_one_is_an_error(ledger: Ledger) -> None:
    assert await ledger.statement_of("wallet") == ()
    with pytest.raises(UnknownAccount, match="nobody"):
        await ledger.statement_of("nobody")
    with pytest.raises(InvalidName):
        await ledger.statement_of("no\0body")


def shown(line: Line) -> tuple[str, str, Money, Money | None]:
    return line.operation_id, line.other, line.change, line.balance
