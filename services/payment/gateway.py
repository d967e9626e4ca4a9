"""What the payment service wants of a provider of payments, whoever that is.

Answers are values. What is no answer is raised: `Transient` if nobody knows what became of the request (it is made
again with the same key), `DependencyDown` if the provider was not reached at all (no attempt is counted), `Permanent`
if it refuses the request itself.
"""

from dataclasses import dataclass
from typing import Protocol

from schemas.payment import FailureReason
from surefoot.consumer import DependencyDown, Permanent
from surefoot.events import Money


@dataclass(frozen=True, slots=True)
class Charged:
    """The money has been taken."""

    charge_id: str


@dataclass(frozen=True, slots=True)
class Declined:
    """No money was taken, and with this key none will be."""

    reason: FailureReason


@dataclass(frozen=True, slots=True)
class Barred:
    """The key was voided before: no money was taken, and with this key none will be."""


@dataclass(frozen=True, slots=True)
class Voided:
    """The charge of this key is undone, and any that comes later is refused."""

    charge_id: str | None
    """None if there was no charge."""
    given_back: Money | None
    """None if there was no money to give back."""


@dataclass(frozen=True, slots=True)
class Refunded:
    refund_id: str


class NotReached(DependencyDown):
    """The request never left, so that nothing can have become of it."""


class RequestRefused(Permanent):
    """The provider does not take the request itself."""

    def __init__(self, sentence: str, *, status: int, code: str | None) -> None:
        super().__init__(sentence)
        self.status = status
        self.code = code


class Gateway(Protocol):
    @property
    def name(self) -> str:
        """As it is said in events: whose `gateway_txn_id` that is."""

    async def charge(self, key: str, order_id: str, amount: Money) -> Charged | Declined | Barred:
        """Take the money, once for this key."""

    async def void(self, key: str) -> Voided:
        """Undo the charge that was, or would have been, made under this key."""

    async def refund(self, refund_request_id: str, charge_id: str, amount: Money) -> Refunded:
        """Give back all or a part of a charge, once for this request."""
