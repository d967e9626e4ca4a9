"""The ledger: accounts that never go below nothing nor above their cap, and every move of money in two entries.

from services.ledger import Done, Ledger, Move, Refused, make
"""

from services.ledger.account_statement import Line, statement_of
from services.ledger.ledger import Ledger
from services.ledger.move import Move
from services.ledger.moves import make
from services.ledger.outcome import (
    AccountFrozen,
    Done,
    InvalidMove,
    InvalidName,
    OperationReused,
    Outcome,
    Reason,
    Refused,
    UnknownAccount,
)
from services.ledger.patience import make_patiently

__all__ = [
    "AccountFrozen",
    "Done",
    "InvalidMove",
    "InvalidName",
    "Ledger",
    "Line",
    "Move",
    "OperationReused",
    "Outcome",
    "Reason",
    "Refused",
    "UnknownAccount",
    "make",
    "make_patiently",
    "statement_of",
]
