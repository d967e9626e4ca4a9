"""Where a command line says to begin."""

import pytest

from surefoot.consumer_runtime.partitions import From, gap, parse_from
from surefoot.errors import ConfigurationError
from surefoot.log.port import TopicPartition, parse_place
from tests.support.corpus import each_of


def test_start_and_end_are_everywhere() -> None:
    assert parse_from("start") == From("start")
    assert parse_from("end") == From("end")


def test_a_place_names_topic_partition_and_offset() -> None:
    assert parse_from("order.events/3:1200") == From(where=TopicPartition("order.events", 3), offset=1200)
    assert parse_place("a-b_c/0:0") == (TopicPartition("a-b_c", 0), 0)


@each_of(
    "text",
    [
        "",
        "begin",
        "Start",
        "order.events",
        "order.events/3",
        "order.events:12",
        "order.events/3:-1",
        "order.events/x:1",
        "order.events/3:1 ",
        "order events/3:1",
        "order.events/3:99999999999999999999",
        "order.events/9999999999:1",
    ],
)
def test_anything_else_is_answered_with_what_would_do(text: str) -> None:
    with pytest.raises(ConfigurationError, match="neither start, nor end, nor a place such as"):
        parse_from(text)


def test_a_gap_says_how_much_is_gone_and_how_to_go_on() -> None:
    sentence = str(gap("warehouse", TopicPartition("order.events", 3), wanted=5, first=12))
    assert "warehouse is to go on at offset 5 of order.events/3" in sentence
    assert "7 offset(s) were removed" in sentence
    assert "--from order.events/3:12" in sentence
