"""Event types for the tests: small, with a key, in a catalogue of their own."""

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
