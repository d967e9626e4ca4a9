"""64 writers on 20 accounts: the sum stays what it was, nothing goes below zero or above its cap, nothing moves twice.

2,000 transfers; 20,000 with SUREFOOT_SOAK. Every tenth is asked for by two writers at once.
"""

import asyncio
import os
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator

import pytest
from prometheus_client import REGISTRY

from services.checks.ledger import Books, findings, read_books
from services.ledger import Done, Ledger, Move, Outcome, Refused
from surefoot.events import Money
from tests.support.services.ledger_harness import eur, ledger_on

WRITERS = 64
ACCOUNTS = [f"wallet-{number}" for number in range(20)]
TRANSFERS = 20_000 if os.environ.get("SUREFOOT_SOAK") else 2_000
SEED = int(os.environ.get("SUREFOOT_SEED", "7"))
CAP = eur("150.00")
FIRST = eur("100.00")

pytestmark = pytest.mark.crowd


@pytest.fixture
async def ledger(empty_database_url: str) -> AsyncIterator[Ledger]:
    async with ledger_on(empty_database_url, connections=WRITERS) as ledger:
        for name in ACCOUNTS:
            await ledger.open(name, "EUR", cap=CAP)
            await ledger.credit(name, FIRST, operation_id=f"first:{name}")
        yield ledger


def asked() -> Iterator[Move]:
    """Amounts up to half of what an account may hold, so that many find too little, or no room."""
    chance = random.Random(SEED)
    for number in range(TRANSFERS):
        source, target = chance.sample(ACCOUNTS, 2)
        move = Move(f"transfer-{number}", source, target, Money.minor(chance.randint(1, 7_500), "EUR"))
        yield move
        if number % 10 == 0:
            yield move


async def test_many_writers_move_money_and_none_is_lost_made_or_moved_twice(
    ledger: Ledger, empty_database_url: str
) -> None:
    outcomes: dict[str, set[Outcome]] = {}
    moves = asked()

    async def writer() -> None:
        for move in moves:
            outcomes.setdefault(move.operation_id, set()).add(await ledger.make(move))

    began = time.monotonic()
    await asyncio.gather(*(writer() for _ in range(WRITERS)))
    took = time.monotonic() - began

    assert len(outcomes) == TRANSFERS
    assert [several for several in outcomes.values() if len(several) != 1] == []
    books = await read_books(empty_database_url)
    assert findings(books) == []
    assert sum(account.balance or 0 for account in books.accounts) == len(ACCOUNTS) * FIRST.minor_units
    told = Counter(operation.outcome for operation in books.operations)
    said = Counter(word(*several) for several in outcomes.values())
    assert {**told, "DONE": told["DONE"] - len(ACCOUNTS)} == said
    assert said.keys() == {"DONE", "INSUFFICIENT", "CAP_EXCEEDED"}
    assert_bounds(books)
    conflicts = REGISTRY.get_sample_value("surefoot_ledger_refused_total", {"reason": "CONFLICT"}) or 0
    print(f"{TRANSFERS} transfers in {took:.1f} s: {dict(said)}, {conflicts:g} conflicts")  # noqa: T201


def assert_bounds(books: Books) -> None:
    """The checker says so as well; this is by hand."""
    held = [entry.balance_after for entry in books.entries if entry.balance_after is not None]
    assert min(held) >= 0
    assert max(held) <= CAP.minor_units
    assert len({operation.operation_id for operation in books.operations}) == len(books.operations)
    assert sum(entry.change for entry in books.entries) == 0


def word(outcome: Outcome) -> str:
    match outcome:
        case Done():
            return "DONE"
        case Refused(reason):
            return reason
