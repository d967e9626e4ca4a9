"""Money that is to go from one account to another. Pure.

What comes into the books or leaves them goes from or to an account that stands for the world outside, one for each
currency: no money is made, none is lost, and the changes of all accounts together are always nothing.
"""

from dataclasses import dataclass

from services.ledger.outcome import InvalidMove, InvalidName
from surefoot.errors import FloatMoney
from surefoot.events import Money

OUTSIDE = "outside:"
"""How the names of the accounts begin that stand for the world outside. Nobody opens one: it is there when needed."""
ACCOUNT, OPERATION = "An account's name", "An operation's id"
LONGEST_NAME = 200
"""Characters of an account's name or an operation's id. Both are in one index, which takes 2,704 bytes at most."""


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
