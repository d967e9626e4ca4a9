"""Event types for the tests: small, with a key, in a catalogue of their own."""

from collections.abc import Iterator
from contextlib import contextmanager

from surefoot.events import Catalogue, EventData, Money

catalogue = Catalogue(source="/tests")
things = catalogue.topic("test.things", partitions=8)


@catalogue.event("thing.happened", topic=things, key="thing_id")
class ThingHappened(EventData):
    thing_id: str
    number: int = 0
    note: str = ""


@catalogue.event("thing.paid", topic=things, key="thing_id")
class ThingPaid(EventData):
    thing_id: str
    price: Money


class NeverDeclared(EventData):
    thing_id: str


@contextmanager
def things_on(topic_name: str) -> Iterator[None]:
    """Put the types above on another topic for a while: the broker is shared, and a test wants one of its own."""
    before = things.name
    object.__setattr__(things, "name", topic_name)  # frozen for everybody but the tests
    try:
        yield
    finally:
        object.__setattr__(things, "name", before)
