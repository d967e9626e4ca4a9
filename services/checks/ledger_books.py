"""The ledger's books, read in one snapshot, as plain values for the checker."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from services.checks.reading import read

ACCOUNTS = "SELECT account_id, kind, currency, balance, cap FROM ledger.accounts"
OPERATIONS = "SELECT operation_id, source, target, amount, currency, outcome FROM ledger.operations"
ENTRIES = """
    SELECT number, operation_id, account_id, currency, change, balance_after FROM ledger.entries ORDER BY number"""


class Account(NamedTuple):
    account_id: str
    kind: str
    currency: str
    balance: int | None
    """None for the world outside."""
    cap: int | None


class Operation(NamedTuple):
    operation_id: str
    source: str
    target: str
    amount: int
    currency: str
    outcome: str


class Entry(NamedTuple):
    number: int
    operation_id: str
    account_id: str
    currency: str
    change: int
    balance_after: int | None


@dataclass(frozen=True, slots=True)
class Books:
    accounts: Sequence[Account] = ()
    operations: Sequence[Operation] = ()
    entries: Sequence[Entry] = ()
    """By number, which for one account is the order in which they happened."""


async def read_books(url: str) -> Books:
    accounts, operations, entries = await read(url, ACCOUNTS, OPERATIONS, ENTRIES)
    return Books(
        [Account(*row) for row in accounts],
        [Operation(*row) for row in operations],
        [Entry(*row) for row in entries],
    )
