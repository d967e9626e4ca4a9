"""A service of the platform with its protection taken out, to show that the chaos test would notice."""

from collections.abc import Callable
from uuid import uuid4

from consumers.__main__ import main as main
from services.payment.book import ChargeAnswer
from services.payment.http_gateway import HttpGateway
from surefoot.events import Money


def key() -> None:
    """Each call has a key of its own, as if it were a wish of its own: the provider cannot know it for a repetition."""
    real = HttpGateway.charge

    async def charge(self: HttpGateway, key: str, order_id: str, amount: Money) -> ChargeAnswer:
        del key
        return await real(self, str(uuid4()), order_id, amount)

    HttpGateway.charge = charge  # type: ignore[method-assign]


PROTECTIONS: dict[str, Callable[[], None]] = {"key": key}
