"""The ledger: accounts that never go below nothing nor above their cap, and every move of money in two entries.

from services.ledger import Done, Ledger, Move, Refused, make
"""

from services.ledger.account import open_account
from services.ledger.account_statement import statement_of
from services.ledger.contention_retry import make_patiently
from services.ledger.ledger import Ledger
from services.ledger.move import Move
from services.ledger.moves import make
from services.ledger.outcome import (
    AccountFrozen,
    Contended,
    Done,
    InvalidMove,
    InvalidName,
    OperationReused,
    Outcome,
    Refused,
    UnknownAccount,
)

__all__ = [
    "AccountFrozen",
    "Contended",
    "Done",
    "InvalidMove",
    "InvalidName",
    "Ledger",
    "Move",
    "OperationReused",
    "Outcome",
    "Refused",
    "UnknownAccount",
    "make",
    "make_patiently",
    "open_account",
    "statement_of",
]
