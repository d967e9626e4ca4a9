"""`tx.publish`: whose flow the new event belongs to."""

from typing import Any, cast

import pytest
from sqlalchemy.ext.asyncio import AsyncSession

from surefoot.consumer import Transaction
from surefoot.errors import InvalidEvent
from surefoot.events import Event, EventData, new_event
from tests.support.shop_types import OrderPaid, StockReserved

SESSION = cast(AsyncSession, object())


class Added(list[tuple[object, EventData, str | None]]):
    """Takes events as the outbox does, and keeps them in order."""

    def __call__(self, session: Any, what: Any, *, key: str | None, caused_by: Event[EventData]) -> Event[Any]:
        self.append((session, what, key))
        return new_event(what, key=key, caused_by=caused_by)


def test_an_event_belongs_to_the_flow_of_the_one_that_is_handled() -> None:
    added, paid = Added(), new_event(OrderPaid(order_id="o-1"))
    event = Transaction(SESSION, added, paid).publish(StockReserved(order_id="o-1"))
    assert (event.causation_id, event.correlation_id, event.key) == (paid.id, paid.id, "o-1")
    assert added == [(SESSION, StockReserved(order_id="o-1"), None)]


def test_another_key_and_another_cause_can_be_given() -> None:
    added, paid, other = Added(), new_event(OrderPaid(order_id="o-1")), new_event(OrderPaid(order_id="o-2"))
    event = Transaction(SESSION, added, paid).publish(StockReserved(order_id="o-1"), key="shelf-7", caused_by=other)
    assert (event.causation_id, event.key) == (other.id, "shelf-7")
    assert added == [(SESSION, StockReserved(order_id="o-1"), "shelf-7")]


def test_in_a_batch_the_cause_has_to_be_said() -> None:
    added, paid = Added(), new_event(OrderPaid(order_id="o-1"))
    tx = Transaction(SESSION, added, None)
    with pytest.raises(InvalidEvent, match="caused_by=event"):
        tx.publish(StockReserved(order_id="o-1"))
    assert added == []
    assert tx.publish(StockReserved(order_id="o-1"), caused_by=paid).causation_id == paid.id
