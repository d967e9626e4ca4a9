"""What the API makes of what a gateway does: an answer is a value, and everything else is said in the layer's words.

Only what is sure is an answer. A provider's own 409 under our key means that it works on it. All that says nothing of
the money is raised on: what became of it is unknown then, and it is asked again under the same key.
"""

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import TypeVar

from services.payment.gateway import NotReached, RequestRefused
from surefoot.idempotency.errors import ProviderBusy

Answer = TypeVar("Answer")
CONFLICT = 409
FINAL_CODES = frozenset({"invalid", "exceeds_captured", "unknown_charge"})
"""With these the provider has done nothing, and never will with this request."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """The provider does not take the request itself: nothing was done, and with this request nothing will be."""

    code: str


@dataclass(frozen=True, slots=True)
class NeverLeft:
    """The provider was not there: this time nothing can have become of it."""


async def asked(answer: Awaitable[Answer]) -> Answer | Rejected | NeverLeft:
    try:
        return await answer
    except NotReached:
        return NeverLeft()
    except RequestRefused as refused:
        if refused.code in FINAL_CODES:
            return Rejected(refused.code)
        if refused.status == CONFLICT:
            raise ProviderBusy(str(refused)) from refused
        raise
