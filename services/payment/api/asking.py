"""What the API makes of what a gateway does: an answer is a value, and everything else is said in the layer's words.

Only what is sure is an answer. A provider's own 409 under our key means that it works on it. All that says nothing of
the money is raised on: what became of it is unknown then, and it is asked again under the same key.
"""

from dataclasses import dataclass
from typing import Literal, assert_never

from services.payment.gateway import Barred, Charged, Declined, Gateway, NotReached, RequestRefused
from surefoot.events import Money
from surefoot.idempotency import ProviderBusy

CONFLICT = 409
FINAL_CODES = frozenset({"invalid", "exceeds_captured", "unknown_charge"})
"""With these the provider has done nothing, and never will with this request."""


# One type with a word in it, and no union: it is kept as JSON, in which two empty answers would look the same.
@dataclass(frozen=True, slots=True)
class Captured:
    """What became of a charge."""

    outcome: Literal["charged", "declined", "barred", "rejected", "never_left"]
    """barred: its key had been voided. rejected: the provider does not take the request itself, and has done nothing.
    never_left: the provider was not there."""
    gateway_txn_id: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class GivenBack:
    """What became of a refund."""

    outcome: Literal["refunded", "rejected", "never_left"]
    gateway_refund_id: str | None = None
    reason: str | None = None


async def capture(gateway: Gateway, charge_id: str, amount: Money, *, sure: bool, key: str) -> Captured:
    """`sure`: no earlier attempt can have reached the provider. Only then it is an answer that this one did not."""
    try:
        answer = await gateway.charge(key, charge_id, amount)
    except NotReached:
        if not sure:
            raise
        return Captured("never_left")
    except RequestRefused as refused:
        return Captured("rejected", reason=_final(refused))
    match answer:
        case Charged(gateway_txn_id):
            return Captured("charged", gateway_txn_id)
        case Declined(reason):
            return Captured("declined", reason=reason)
        case Barred():
            return Captured("barred", reason="voided")
        case _:
            assert_never(answer)


async def give_back(
    gateway: Gateway, refund_id: str, gateway_txn_id: str, amount: Money, *, sure: bool, key: str
) -> GivenBack:
    """The provider knows a refund by its id, which every attempt has the same of, and needs no other key."""
    try:
        done = await gateway.refund(refund_id, gateway_txn_id, amount)
    except NotReached:
        if not sure:
            raise
        return GivenBack("never_left")
    except RequestRefused as refused:
        return GivenBack("rejected", reason=_final(refused))
    return GivenBack("refunded", done.refund_id)


def _final(refused: RequestRefused) -> str:
    """Why the provider has done nothing, and never will with this request. Raises where that is not sure."""
    if refused.code in FINAL_CODES:
        return refused.code
    if refused.status == CONFLICT:
        raise ProviderBusy(str(refused)) from refused
    raise refused
