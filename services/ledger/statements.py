"""What the ledger says to the database: builders of statements, pure.

A move is one statement. It locks the accounts in the order of their names, so that no two moves wait for each other;
looks at what they hold now; claims the operation's id together with the outcome; and, if it is the first to do so,
changes the balances and writes one entry for each side. There is no moment between the look and the change.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from services.ledger.move import Move, outside
from surefoot.events.money import MAX_MINOR_UNITS

Value = str | int | bool | None
"""No float: a balance is a whole number of minor units."""


@dataclass(frozen=True, slots=True)
class Statement:
    sql: str
    """With `:name` where a value goes."""
    parameters: Mapping[str, Value] = field(default_factory=dict)


ENOUGH = "balance >= - change"
ROOM = f"balance <= coalesce(cap, {MAX_MINOR_UNITS}) - change"
"""Without a cap of its own an account holds as much as can be told as money."""
LOCK = "ORDER BY account.account_id FOR NO KEY UPDATE OF account"
CLAIM = "ON CONFLICT (operation_id) DO NOTHING"

# The new balance comes from the row that was locked: `account.balance` would first be the version that the statement
# saw when it began, and the constraints would be checked on that.
# The world outside is not locked and has no balance of its own: nothing depends on how much it has given, and all
# who put money in or take it out would wait for each other there. It is the sum of its entries.
_MOVE = f"""
WITH asked AS (
    SELECT CAST(:operation_id AS text) AS operation_id, CAST(:giver AS text) AS giver, CAST(:taker AS text) AS taker,
        CAST(:amount AS bigint) AS amount, CAST(:currency AS text) AS currency
), sides AS (
    SELECT giver AS account_id, - amount AS change FROM asked UNION ALL SELECT taker, amount FROM asked
), locked AS (
    SELECT account.*, sides.change
    FROM ledger.accounts AS account JOIN sides ON sides.account_id = account.account_id
    WHERE account.kind = 'inside' {LOCK}
), decided AS (
    SELECT CASE WHEN NOT bool_and(change > 0 OR {ENOUGH}) THEN 'INSUFFICIENT'
                WHEN NOT bool_and(change < 0 OR {ROOM}) THEN 'CAP_EXCEEDED'
                ELSE 'DONE' END AS outcome
    FROM locked
    HAVING count(*) = :inside AND bool_and(currency = :currency AND NOT frozen)
), claimed AS (
    INSERT INTO ledger.operations (operation_id, source, target, amount, currency, outcome)
    SELECT operation_id, giver, taker, amount, currency, outcome FROM asked, decided
    {CLAIM} RETURNING operation_id, currency, outcome
), moved AS (
    UPDATE ledger.accounts AS account SET balance = locked.balance + locked.change
    FROM locked, claimed WHERE account.account_id = locked.account_id AND claimed.outcome = 'DONE'
    RETURNING account.account_id, account.balance
), world AS (
    INSERT INTO ledger.accounts (account_id, kind, currency, balance)
    SELECT CAST(:outside AS text), 'outside', currency, NULL FROM claimed
    WHERE outcome = 'DONE' AND CAST(:outside AS text) IS NOT NULL
    ON CONFLICT (account_id) DO NOTHING
), written AS (
    INSERT INTO ledger.entries (operation_id, account_id, currency, change, balance_after)
    SELECT claimed.operation_id, sides.account_id, claimed.currency, sides.change, moved.balance
    FROM claimed CROSS JOIN sides LEFT JOIN moved ON moved.account_id = sides.account_id
    WHERE claimed.outcome = 'DONE'
)
SELECT claimed.outcome, moved.balance,
    ARRAY(SELECT account_id FROM locked) AS found,
    ARRAY(SELECT account_id FROM locked WHERE frozen) AS frozen,
    ARRAY(SELECT account_id || ' is in ' || currency FROM locked WHERE currency <> :currency) AS foreign_ones
FROM asked LEFT JOIN claimed ON true LEFT JOIN moved ON moved.account_id = :shown
"""
_FIRST = """
SELECT operation.source, operation.target, operation.amount, operation.currency, operation.outcome, entry.balance_after
FROM ledger.operations AS operation
LEFT JOIN ledger.entries AS entry ON entry.operation_id = operation.operation_id AND entry.account_id = :shown
WHERE operation.operation_id = :operation_id
"""
# It looks first: a conflict with a row that somebody is just changing would wait for them.
_OPEN = """
INSERT INTO ledger.accounts (account_id, kind, currency, balance, cap)
SELECT CAST(:account_id AS text), 'inside', CAST(:currency AS text), 0, CAST(:cap AS bigint)
WHERE NOT EXISTS (SELECT FROM ledger.accounts WHERE account_id = CAST(:account_id AS text))
ON CONFLICT (account_id) DO NOTHING
"""
_BALANCE = """
SELECT account.currency, coalesce(account.balance, (
    SELECT CAST(coalesce(sum(change), 0) AS bigint) FROM ledger.entries AS entry
    WHERE entry.account_id = account.account_id
)) AS balance, account.frozen
FROM ledger.accounts AS account WHERE account.account_id = :account_id
"""
_FREEZE = "UPDATE ledger.accounts SET frozen = :frozen WHERE account_id = :account_id RETURNING account_id"
_LINES = """
SELECT * FROM (
    SELECT entry.number, operation.at, entry.operation_id, entry.currency, entry.change, entry.balance_after,
        CASE entry.account_id WHEN operation.source THEN operation.target ELSE operation.source END AS other
    FROM ledger.entries AS entry JOIN ledger.operations AS operation USING (operation_id)
    WHERE entry.account_id = :account_id ORDER BY entry.number DESC LIMIT :limit
) AS latest ORDER BY number
"""


def move(asked: Move) -> Statement:
    """Make the move if it can be made, write down why not if it cannot; nothing if its id is known."""
    return Statement(
        _MOVE,
        {
            "operation_id": asked.operation_id,
            "giver": asked.giver,
            "taker": asked.taker,
            "amount": asked.amount.minor_units,
            "currency": asked.amount.currency,
            "inside": len(asked.inside),
            "outside": None if len(asked.inside) == 2 else outside(asked.amount.currency),
            "shown": asked.inside[0],
        },
    )


def first_outcome(asked: Move) -> Statement:
    """What became of the first move with this id."""
    return Statement(_FIRST, {"operation_id": asked.operation_id, "shown": asked.inside[0]})


def open_account(account_id: str, currency: str, cap: int | None) -> Statement:
    """An account with nothing in it; one that is there stays as it is."""
    return Statement(_OPEN, {"account_id": account_id, "currency": currency, "cap": cap})


def balance(account_id: str) -> Statement:
    return Statement(_BALANCE, {"account_id": account_id})


def freeze(account_id: str) -> Statement:
    return Statement(_FREEZE, {"account_id": account_id, "frozen": True})


def release(account_id: str) -> Statement:
    return Statement(_FREEZE, {"account_id": account_id, "frozen": False})


def lines(account_id: str, limit: int) -> Statement:
    """The last so many entries of an account, the oldest first."""
    return Statement(_LINES, {"account_id": account_id, "limit": limit})
