"""Topics: what Kafka would refuse is refused where it is declared."""

from datetime import timedelta

import pytest

from surefoot.errors import ConfigurationError
from surefoot.events import Catalogue, Topic
from tests.support.corpus import each_of


def test_a_topic_has_defaults_that_suit_most() -> None:
    assert Topic("order.events") == Topic("order.events", 8, timedelta(days=7), 1_048_576)


def test_a_dead_letter_topic_is_larger_and_kept_thirty_days() -> None:
    topic = Topic("order.events", partitions=3, retention=timedelta(days=2), max_record_bytes=1000)
    assert topic.dead_letters == Topic("order.events.dlq", 3, timedelta(days=30), 2000)


def test_a_dead_letter_topic_is_kept_as_long_as_its_topic() -> None:
    assert Topic("audit", retention=timedelta(days=90)).dead_letters.retention == timedelta(days=90)


@each_of("name", ["", ".", "..", "order events", "bestellung.ä", "a/b", "x" * 250, "order\n"])
def test_a_name_that_kafka_refuses_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="no name for a topic"):
        Topic(name)


@pytest.mark.parametrize("name", ["a", "Order_Events-1.x", "...", "x" * 249])
def test_a_name_that_kafka_takes_is_taken(name: str) -> None:
    assert Topic(name).name == name


def test_settings_that_hold_nothing_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="at least one"):
        Topic("a", partitions=0)
    with pytest.raises(ConfigurationError, match="time above zero"):
        Topic("a", retention=timedelta(0))
    with pytest.raises(ConfigurationError, match="size above zero"):
        Topic("a", max_record_bytes=0)


def test_a_dead_letter_topic_is_not_declared_by_hand(catalogue: Catalogue) -> None:
    with pytest.raises(ConfigurationError, match="kept for dead letters"):
        catalogue.topic("order.events.dlq")


def test_a_name_leaves_room_for_its_dead_letter_topic(catalogue: Catalogue) -> None:
    assert catalogue.topic("x" * 245).dead_letters.name == "x" * 245 + ".dlq"
    with pytest.raises(ConfigurationError, match="leave 4 of them"):
        catalogue.topic("x" * 246)


def test_topics_are_listed_by_name_each_before_its_dead_letters(catalogue: Catalogue) -> None:
    for name in ("stock.events", "order.events", "order.events-eu"):
        catalogue.topic(name)
    assert [topic.name for topic in catalogue.topics()] == [
        "order.events",
        "order.events.dlq",
        "order.events-eu",
        "order.events-eu.dlq",
        "stock.events",
        "stock.events.dlq",
    ]


def test_a_topic_declared_twice_with_the_same_settings_is_one(catalogue: Catalogue) -> None:
    assert catalogue.topic("a.b") == catalogue.topic("a.b")
    assert len(catalogue.topics()) == 2


def test_a_topic_declared_twice_with_different_settings_is_refused(catalogue: Catalogue) -> None:
    catalogue.topic("a.b", partitions=8)
    with pytest.raises(ConfigurationError, match=r"declared twice, with 8 partitions.* and with 9 partitions"):
        catalogue.topic("a.b", partitions=9)


def test_names_that_kafka_cannot_tell_apart_are_refused(catalogue: Catalogue) -> None:
    catalogue.topic("a.b")
    with pytest.raises(ConfigurationError, match="dots and underscores"):
        catalogue.topic("a_b")
