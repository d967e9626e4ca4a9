"""The ledger: accounts that never go below nothing nor above their cap, and every move of money in two entries.

from services.ledger import Done, Ledger, Move, Refused, make
"""

from services.ledger.ledger import Ledger, open_account, statement_of
from services.ledger.move import (
    AccountFrozen,
    Contended,
    Done,
    InvalidMove,
    InvalidName,
    Move,
    OperationReused,
    Outcome,
    Refused,
    UnknownAccount,
)
from services.ledger.moves import make, make_patiently

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
