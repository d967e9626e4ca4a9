"""Ledger: wallets of customers and merchants that never go below nothing nor above their cap.

from services.ledger import Ledger, Done, Refused
"""

from services.ledger.ledger import Ledger
from services.ledger.outcome import (
    AccountFrozen,
    Done,
    InvalidMove,
    OperationReused,
    Outcome,
    Reason,
    Refused,
    UnknownAccount,
)

__all__ = [
    "AccountFrozen",
    "Done",
    "InvalidMove",
    "Ledger",
    "OperationReused",
    "Outcome",
    "Reason",
    "Refused",
    "UnknownAccount",
]
