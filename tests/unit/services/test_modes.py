"""An order is driven by the orchestrator or by the services among themselves, never by both.

The kit has no session here: a handler that would so much as look at a row fails the test.
"""

from collections.abc import Callable

import pytest

from consumers.order import order_choreography
from consumers.warehouse import warehouse_choreography
from schemas.order import OrderCancelled, OrderPaid, PlacementRequested
from schemas.parts import Address, Line
from surefoot.consumer import Consumer
from surefoot.events import EventData, Money
from surefoot.testing.consumer_kit import ConsumerKit, KitMisuse

PRICE = Money.minor(1000, "EUR")
HOME = Address(name="A. Buyer", street="1 Main Street", postal_code="12345", city="Springfield", country="US")


def placement(mode: str) -> PlacementRequested:
    return PlacementRequested.model_validate(
        {
            "order_id": "o-1",
            "customer_id": "c-1",
            "checkout_session_id": "s-1",
            "mode": mode,
            "lines": [Line(sku="table", quantity=1, unit_price=PRICE)],
            "total": PRICE,
            "ship_to": HOME,
        }
    )


def paid(mode: str) -> OrderPaid:
    return OrderPaid.model_validate(
        {"order_id": "o-1", "checkout_session_id": "s-1", "mode": mode, "payment_id": "p-1", "total": PRICE}
    )


def cancelled(mode: str) -> OrderCancelled:
    return OrderCancelled.model_validate(
        {"order_id": "o-1", "checkout_session_id": "s-1", "mode": mode, "reason": "operator"}
    )


CASES = [(order_choreography, placement), (warehouse_choreography, paid), (warehouse_choreography, cancelled)]


@pytest.mark.parametrize(("consumer", "event"), CASES)
async def test_what_a_saga_drives_is_left_to_it(consumer: Consumer, event: Callable[[str], EventData]) -> None:
    kit = ConsumerKit(consumer)
    (delivered,) = await kit.deliver(event("orchestrated"))
    assert kit.outcome_of(delivered) == "PROCESSED"
    assert kit.published == []


@pytest.mark.parametrize(("consumer", "event"), CASES)
async def test_what_no_saga_drives_is_acted_on(consumer: Consumer, event: Callable[[str], EventData]) -> None:
    with pytest.raises(KitMisuse, match="session"):
        await ConsumerKit(consumer).deliver(event("choreographed"))
