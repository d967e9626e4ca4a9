"""What can become of a move, and what an error of the database says about it. Pure."""

from dataclasses import dataclass
from typing import Literal

from surefoot.consumer.failures import causes, sqlstate_of
from surefoot.errors import SurefootError
from surefoot.events import Money

Reason = Literal["INSUFFICIENT", "CAP_EXCEEDED", "CONFLICT", "THROTTLED"]
"""INSUFFICIENT: there is less than that. CAP_EXCEEDED: there would be more than the account may hold. CONFLICT:
somebody else changed the same at the same time. THROTTLED: too many want it, or the database has no room."""
RETRIABLE: frozenset[Reason] = frozenset({"CONFLICT", "THROTTLED"})
"""The other two are answers, and stay the same until somebody moves money."""

_CONFLICTS = ("40P01", "40001")
"""Deadlock, serialization failure."""
_THROTTLES = ("55P03", "57014")
"""A lock not had in time, a statement that took too long."""
_NO_ROOM = "53"
"""The class of too many connections, out of memory, disk full."""


@dataclass(frozen=True, slots=True)
class Done:
    """It was moved, by this call or by an earlier one of the same operation."""

    balance: Money
    """Right after the move; in a transfer, of the account that gave."""


@dataclass(frozen=True, slots=True)
class Refused:
    """Nothing was moved."""

    reason: Reason

    @property
    def is_retriable(self) -> bool:
        return self.reason in RETRIABLE


Outcome = Done | Refused


class UnknownAccount(SurefootError):
    """There is no such account: open it first."""


class AccountFrozen(SurefootError):
    """The account is frozen: nothing is changed until it is released."""


class Contended(SurefootError):
    """Somebody else was first, or too many came at once. Nothing was moved, and the transaction has failed: try it
    again as a whole."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(f"Nothing was moved ({reason}): try the transaction again as a whole.")
        self.reason: Reason = reason


class InvalidName(SurefootError):
    """No account can have this name, and no operation this id."""


class InvalidMove(SurefootError):
    """The move makes no sense as it was asked for."""


class OperationReused(SurefootError):
    """The operation's id was used for another move: each needs an id of its own."""


def reason_of(error: BaseException) -> Reason | None:
    """Why the database did not change anything, if trying again can help; None if it cannot."""
    state = sqlstate_of(error)
    if state in _CONFLICTS:
        return "CONFLICT"
    if state in _THROTTLES or state.startswith(_NO_ROOM):
        return "THROTTLED"
    # The pool's own error has no code: all of its connections are in use.
    from_pool = any(
        type(cause).__module__.startswith("sqlalchemy") and type(cause).__name__ == "TimeoutError"
        for cause in causes(error)
    )
    return "THROTTLED" if from_pool else None
