"""Commands and replies for the tests: a saga that reserves stock and gives it back."""

from collections.abc import Iterator
from contextlib import contextmanager

from surefoot.events import Catalogue, Event, EventData, new_event
from surefoot.events.commands import Command, Direction

catalogue = Catalogue(source="/tests/orders")
commands = catalogue.topic("test.commands", partitions=8)
replies = catalogue.topic("test.replies", partitions=8)


@catalogue.event("stock.reserve", topic=commands, key="saga_id")
class ReserveStock(EventData):
    saga_id: str
    number: int = 0


@catalogue.event("stock.release", topic=commands, key="saga_id")
class ReleaseStock(EventData):
    saga_id: str
    number: int = 0


@catalogue.event("stock.reserved", topic=replies, key="saga_id")
class StockReserved(EventData):
    saga_id: str
    place: str = ""


@catalogue.event("stock.released", topic=replies, key="saga_id")
class StockReleased(EventData):
    saga_id: str
    was_done: bool = False


def reserve(saga_id: str = "s1", number: int = 0, attempt: int = 1) -> Event[ReserveStock]:
    return new_event(ReserveStock(saga_id=saga_id, number=number), extensions=step(saga_id, "do", attempt))


def release(saga_id: str = "s1", number: int = 0) -> Event[ReleaseStock]:
    return new_event(ReleaseStock(saga_id=saga_id, number=number), extensions=step(saga_id, "undo"))


def step(saga_id: str, direction: Direction, attempt: int = 1) -> dict[str, str]:
    return dict(Command(saga_id, "reserve_stock", direction, attempt).extensions())


@contextmanager
def commands_on(topic_name: str) -> Iterator[None]:
    """Put the commands on another topic for a while."""
    before = commands.name
    object.__setattr__(commands, "name", topic_name)  # frozen for everybody but the tests
    try:
        yield
    finally:
        object.__setattr__(commands, "name", before)
