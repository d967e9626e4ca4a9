"""Balances: wallets of customers and merchants that never go below nothing nor above their cap.

from services.balances import Balances, Done, Refused
"""

from services.balances.balances import Balances
from services.balances.outcome import (
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
    "Balances",
    "Done",
    "InvalidMove",
    "OperationReused",
    "Outcome",
    "Reason",
    "Refused",
    "UnknownAccount",
]
