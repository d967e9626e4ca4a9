"""What both trees are given to do: events, a consumer and a saga. Imported by the bench and by every measured process.

Only public names of the library, so that it runs on a commit before and on one after a move of its modules.
"""

from datetime import timedelta

from surefoot.consumer import Consumer, Transaction
from surefoot.events import Catalogue, Event, EventData, Money
from surefoot.saga import Saga

catalogue = Catalogue(source="/bench/quick")
# One partition each: batches, and so statements, are the same in every round, and one more statement shows.
orders = catalogue.topic("quick.orders", partitions=1)
feed = catalogue.topic("quick.feed", partitions=1)
sagas = catalogue.topic("quick.sagas", partitions=1)
commands = catalogue.topic("quick.commands", partitions=1)


class Order(EventData):
    """About as large as a small order's event is."""

    order_id: str
    customer_id: str = "customer-0123456789"
    total: Money = Money.minor(1999, "EUR")
    note: str = "x" * 80


@catalogue.event("quick.order_placed", topic=orders, key="order_id")
class OrderPlaced(Order):
    """For the relay, and what the consumer publishes."""


@catalogue.event("quick.order_arrived", topic=feed, key="order_id")
class OrderArrived(Order):
    """For the consumer."""


consumer = Consumer("quick")


@consumer.on(OrderArrived)
async def place(event: Event[OrderArrived], tx: Transaction) -> None:
    tx.publish(OrderPlaced(order_id=event.data.order_id))


@catalogue.event("quick.order_requested", topic=sagas, key="order_id")
class OrderRequested(Order):
    """A saga starts."""


@catalogue.event("quick.act", topic=commands, key="order_id")
class Act(EventData):
    """Every step's command."""

    order_id: str
    amount: Money


@catalogue.event("quick.acted", topic=sagas, key="order_id")
class Acted(EventData):
    """Every step's reply."""

    order_id: str
    reference: str = "reference-0123456789"


def act(order: OrderRequested) -> Act:
    return Act(order_id=order.order_id, amount=order.total)


STEPS = ("reserve", "capture", "confirm", "ship")
_timeout = timedelta(minutes=30)
saga = Saga("quick", version=1, starts_on=OrderRequested)
saga.step("reserve", do=act, done_on=Acted, undo=act, undone_on=Acted, timeout=_timeout)
saga.step("capture", do=act, done_on=Acted, undo=act, undone_on=Acted, timeout=_timeout)
saga.pivot("confirm", do=act, done_on=Acted, timeout=_timeout)
saga.step("ship", do=act, done_on=Acted, timeout=_timeout)
