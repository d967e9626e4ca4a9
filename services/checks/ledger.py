"""The ledger adds up: every operation is balanced and made once, and every balance is what its entries say.

Pure functions over the ledger's books; `check()` reads them and runs all. They know nothing of how a move is made. To
be run at any time: a snapshot of the ledger is whole.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from services.checks.checker import Finding, read

Violation = Literal["unbalanced", "moved_twice", "not_as_asked", "below_zero", "above_cap", "differs"]
"""unbalanced: the entries of an operation do not sum to zero. moved_twice: one operation was made more than once.
not_as_asked: an operation's entries are not what it says it did. below_zero: an account held less than nothing.
above_cap: it held more than it may. differs: a balance is not what its entries come to."""
Found = Finding[Violation]

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


async def check(url: str) -> list[Found]:
    return findings(await read_books(url))


def findings(books: Books) -> list[Found]:
    return [
        *unbalanced(books.entries),
        *moved_twice(books),
        *not_as_asked(books),
        *out_of_bounds(books),
        *differing(books),
    ]


def unbalanced(entries: Iterable[Entry]) -> list[Found]:
    """What an operation takes in a currency, it gives in that currency."""
    sums: Counter[tuple[str, str]] = Counter()
    for entry in entries:
        sums[entry.operation_id, entry.currency] += entry.change
    return [
        Finding("unbalanced", f"the entries of {operation_id} sum to {off} minor units of {currency}, and not to zero")
        for (operation_id, currency), off in sums.items()
        if off
    ]


def moved_twice(books: Books) -> Iterable[Found]:
    """An operation's id is there once, and so is each account in its entries."""
    operations = Counter(operation.operation_id for operation in books.operations)
    entries = Counter((entry.operation_id, entry.account_id) for entry in books.entries)
    for operation_id, times in operations.items():
        if times > 1:
            yield Finding("moved_twice", f"operation {operation_id} was made {times} times")
    for (operation_id, account_id), times in entries.items():
        if times > 1:
            yield Finding("moved_twice", f"operation {operation_id} changed {account_id} {times} times")


def not_as_asked(books: Books) -> Iterable[Found]:
    """DONE: the source gave the amount and the target got it. Refused: nothing was changed. And no entry is alone."""
    made: defaultdict[str, set[tuple[str, int, str]]] = defaultdict(set)
    for entry in books.entries:
        made[entry.operation_id].add((entry.account_id, entry.change, entry.currency))
    for operation in books.operations:
        found = made.pop(operation.operation_id, set())
        if found != _asked(operation):
            changes = ", ".join(
                f"{account_id} by {change} {currency}" for account_id, change, currency in sorted(found)
            )
            yield Finding(
                "not_as_asked",
                f"operation {operation.operation_id} of {operation.amount} {operation.currency} from "
                f"{operation.source} to {operation.target} is {operation.outcome}, and changed {changes or 'nothing'}",
            )
    for operation_id in made:
        yield Finding("not_as_asked", f"there are entries of {operation_id}, which is no operation")


def out_of_bounds(books: Books) -> Iterable[Found]:
    """Now and after each entry, an account held no less than nothing and no more than its cap."""
    entries = _by_account(books)
    for account in _inside(books):
        held = [entry.balance_after or 0 for entry in entries.get(account.account_id, ())]
        if account.balance is not None:
            held.append(account.balance)
        low, high = min(held, default=0), max(held, default=0)
        if low < 0:
            yield Finding("below_zero", f"account {account.account_id} held {low} minor units of {account.currency}")
        if account.cap is not None and high > account.cap:
            yield Finding("above_cap", f"account {account.account_id} held {high}, and may hold {account.cap}")


def differing(books: Books) -> Iterable[Found]:
    """From nothing on, each entry leaves what was there plus its change; the last one leaves the balance."""
    entries = _by_account(books)
    for account in _inside(books):
        balance = 0
        for entry in entries.get(account.account_id, ()):
            balance += entry.change
            if entry.balance_after != balance:
                yield Finding(
                    "differs",
                    f"account {account.account_id} had {balance} by its entries after {entry.operation_id}, and the "
                    f"entry says {entry.balance_after}",
                )
                break
        else:
            if account.balance != balance:
                yield Finding(
                    "differs",
                    f"account {account.account_id} holds {account.balance}, and its entries come to {balance}",
                )


def _asked(operation: Operation) -> set[tuple[str, int, str]]:
    if operation.outcome != "DONE":
        return set()
    return {
        (operation.source, -operation.amount, operation.currency),
        (operation.target, operation.amount, operation.currency),
    }


def _inside(books: Books) -> Iterable[Account]:
    return (account for account in books.accounts if account.kind == "inside")


def _by_account(books: Books) -> dict[str, Sequence[Entry]]:
    entries: defaultdict[str, list[Entry]] = defaultdict(list)
    for entry in books.entries:
        entries[entry.account_id].append(entry)
    return dict(entries)
