"""How long the inbox remembers: never shorter than an event could come again."""

from datetime import timedelta

import pytest

from consumers.housekeeping import retention_of
from consumers.settings import ConsumerSettings
from surefoot.consumer import Consumer, Transaction
from surefoot.events import Catalogue, Event, EventData

catalogue = Catalogue(source="/tests/retention")
brief = catalogue.topic("retention.brief", partitions=1, retention=timedelta(days=2))
long = catalogue.topic("retention.long", partitions=1, retention=timedelta(days=90))


@catalogue.event("brief.said", topic=brief, key="text")
class BrieflySaid(EventData):
    text: str = ""


@catalogue.event("long.said", topic=long, key="text")
class LongSaid(EventData):
    text: str = ""


async def handle(event: Event[EventData], tx: Transaction) -> None: ...


@pytest.mark.parametrize(
    ("types", "retention_days", "replay_days", "expected_days"),
    [
        ([BrieflySaid], 1, 14, 30 + 14),  # its dead letters are kept for 30 days, and may be replayed 14 days longer
        ([BrieflySaid], 1, 1, 30 + 1),
        ([BrieflySaid], 365, 14, 365),  # longer than needed is the user's choice
        ([LongSaid], 1, 14, 90 + 14),
        ([BrieflySaid, LongSaid], 45, 14, 90 + 14),
    ],
)
def test_the_inbox_outlives_topic_dead_letters_and_replay_window_whatever_is_set(
    types: list[type[EventData]], retention_days: int, replay_days: int, expected_days: int
) -> None:
    consumer = Consumer("warehouse")
    for one in types:
        consumer.on(one)(handle)
    settings = ConsumerSettings(retention=timedelta(days=retention_days), replay_window=timedelta(days=replay_days))
    assert retention_of(consumer, settings) == timedelta(days=expected_days)
