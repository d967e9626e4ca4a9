"""The statement of an account, as a bank sends it: what came, what went, and what was there afterwards."""

from dataclasses import dataclass
from datetime import datetime

from services.ledger import statements
from services.ledger.move import ACCOUNT, check_name
from services.ledger.moves import Executor, execute
from services.ledger.outcome import UnknownAccount
from surefoot.events import Money

MOST_LINES = 1_000


@dataclass(frozen=True, slots=True)
class Line:
    number: int
    at: datetime
    operation_id: str
    other: str
    """The account that it came from or went to."""
    change: Money
    """Below zero for what was given."""
    balance: Money | None
    """Right after it; None for the world outside, whose balance nobody keeps."""


async def statement_of(tx: Executor, account_id: str, *, limit: int = MOST_LINES) -> tuple[Line, ...]:
    """The last so many lines, the oldest first."""
    check_name(ACCOUNT, account_id)
    rows = (await execute(tx, statements.lines(account_id, limit))).all()
    if not rows and (await execute(tx, statements.balance(account_id))).one_or_none() is None:
        raise UnknownAccount(f"There is no account {account_id}: open it first.")
    return tuple(
        Line(
            row.number,
            row.at,
            row.operation_id,
            row.other,
            Money.minor(row.change, row.currency),
            None if row.balance_after is None else Money.minor(row.balance_after, row.currency),
        )
        for row in rows
    )
