"""How long the inbox remembers: never shorter than an event could come again."""

from datetime import timedelta

import pytest

from surefoot.consumer import Consumer, Transaction
from surefoot.consumer_runtime.housekeeping import retention_of
from surefoot.consumer_runtime.settings import ConsumerSettings
from surefoot.events import Event, EventData
from tests.support.event_types import ThingMentioned, ThingRecorded


async def handle(event: Event[EventData], tx: Transaction) -> None: ...


@pytest.mark.parametrize(
    ("types", "retention_days", "expected_days"),
    [
        ([ThingMentioned], 1, 30 + 14),  # its dead letters are kept for 30 days, and may be replayed 14 days longer
        ([ThingMentioned], 365, 365),  # longer than needed is the user's choice
        ([ThingRecorded], 1, 90 + 14),
        ([ThingMentioned, ThingRecorded], 45, 90 + 14),
    ],
)
def test_the_inbox_outlives_topic_dead_letters_and_replay_window_whatever_is_set(
    types: list[type[EventData]], retention_days: int, expected_days: int
) -> None:
    consumer = Consumer("warehouse")
    for one in types:
        consumer.on(one)(handle)
    settings = ConsumerSettings(retention=timedelta(days=retention_days))
    assert retention_of(consumer, settings) == timedelta(days=expected_days)
