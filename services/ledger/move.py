"""Money that is to go from one account to another, what can become of it, and what an error of the database says about
it. Pure.

What comes into the books or leaves them goes from or to an account that stands for the world outside, one for each
currency: no money is made, none is lost, and the changes of all accounts together are always nothing.
"""

from dataclasses import dataclass
from typing import Literal

from surefoot.consumer.failures import causes, sqlstate_of
from surefoot.errors import FloatMoney, SurefootError
from surefoot.events import Money

OUTSIDE = "outside:"
"""How the names of the accounts begin that stand for the world outside. Nobody opens one: it is there when needed."""
ACCOUNT, OPERATION = "An account's name", "An operation's id"
LONGEST_NAME = 200
"""Characters of an account's name or an operation's id. Both are in one index, which takes 2,704 bytes at most."""
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


def outside(currency: str) -> str:
    """The account that stands for the world outside, in this currency."""
    return f"{OUTSIDE}{currency}"


@dataclass(frozen=True, slots=True)
class Move:
    """`source=None`: it comes from outside. `target=None`: it goes there."""

    operation_id: str
    source: str | None
    target: str | None
    amount: Money

    def __post_init__(self) -> None:
        check_name(OPERATION, self.operation_id)
        amount: object = self.amount
        if isinstance(amount, float):
            raise FloatMoney
        if not isinstance(amount, Money):
            raise InvalidMove(
                f"The amount of {self.operation_id} is a {type(self.amount).__name__}: give "
                'Money(Decimal("19.99"), "EUR").'
            )
        if self.amount.minor_units <= 0:
            raise InvalidMove(f"{self.operation_id} is to move {self.amount}: only more than nothing can be moved.")
        if self.source == self.target:
            raise InvalidMove(f"{self.operation_id} is to move money from {self.source} to itself.")
        for account_id in self.inside:
            check_account(account_id)

    @property
    def giver(self) -> str:
        return outside(self.amount.currency) if self.source is None else self.source

    @property
    def taker(self) -> str:
        return outside(self.amount.currency) if self.target is None else self.target

    @property
    def inside(self) -> tuple[str, ...]:
        """The accounts whose balances change, the one that gives first."""
        return tuple(account_id for account_id in (self.source, self.target) if account_id is not None)


def check_account(account_id: str) -> None:
    check_name(ACCOUNT, account_id)
    if account_id.startswith(OUTSIDE):
        raise InvalidName(
            f"{account_id} stands for the world outside: leave the account out, and the money comes from there or "
            "goes there."
        )


def check_name(what: str, name: str) -> None:
    """Refuse here what the database would refuse: an error of its own would end the caller's transaction."""
    if not isinstance(name, str) or not 1 <= len(name) <= LONGEST_NAME or not name.isprintable():
        raise InvalidName(f"{what} must be 1 to {LONGEST_NAME} printable characters, and is {name!r:.60}.")


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
