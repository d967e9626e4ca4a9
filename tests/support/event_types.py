"""Event types for tests that need some event and do not care which: things that happen, with a key.

`shop_types` has the types of a shop, with commands and replies. `order_types` is a catalogue that the tests of
`surefoot.events` know in every detail.
"""

from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Annotated

from pydantic import Field

from surefoot.events import Catalogue, EventData, Money, Personal
from tests.support.topic_settings import topic_with

catalogue = Catalogue(source="/tests")
things = catalogue.topic("test.things", partitions=8)
told = catalogue.topic("test.told", partitions=8)
briefly_kept = catalogue.topic("test.briefly_kept", partitions=1, retention=timedelta(days=2))
long_kept = catalogue.topic("test.long_kept", partitions=1, retention=timedelta(days=90))


def things_on(topic_name: str) -> AbstractContextManager[None]:
    """Put the types of `things` on another topic for a while: the broker is shared, and a test wants its own topic."""
    return topic_with(things, name=topic_name)


@catalogue.event("thing.happened", topic=things, key="thing_id")
class ThingHappened(EventData):
    thing_id: str
    number: int = 0
    note: str = ""


@catalogue.event("thing.happened", version=3, topic=things, key="thing_id")
class ThingHappenedV3(EventData):
    thing_id: str


@catalogue.event("thing.paid", topic=things, key="thing_id")
class ThingPaid(EventData):
    thing_id: str
    price: Money


@catalogue.event("thing.counted", topic=things, key=None)
class ThingCounted(EventData):
    count: Annotated[int, Field(strict=True)]


@catalogue.event("thing.sent_home", topic=things, key="thing_id")
class ThingSentHome(EventData):
    thing_id: str
    street: Annotated[str, Personal]


@catalogue.event("thing.told", topic=told, key="thing_id")
class ThingTold(EventData):
    """What a consumer publishes about a thing that happened."""

    thing_id: str
    number: int


@catalogue.event("thing.mentioned", topic=briefly_kept, key="thing_id")
class ThingMentioned(EventData):
    thing_id: str = ""


@catalogue.event("thing.recorded", topic=long_kept, key="thing_id")
class ThingRecorded(EventData):
    thing_id: str = ""


class NeverDeclared(EventData):
    thing_id: str
