"""What is answered over HTTP."""

import orjson

from consumers.statistics.answers import Window, answer, health, records_behind
from consumers.statistics.counting import View

NOON = 1_800_000_000.0  # 2027-01-15 08:00:00 UTC


def minute(minutes_ago: int) -> Window:
    start = NOON - 60 * minutes_ago
    return start, start + 59.9


CONTENTS: list[tuple[tuple[View, Window], dict[str, int]]] = [
    (("events", minute(0)), {"order.paid": 1, "order.placed": 12, "order.cancelled": 1}),
    (("sagas", minute(0)), {"saga.completed": 3}),
    (("events", minute(59)), {"order.placed": 7}),
    (("events", minute(60)), {"order.placed": 5}),
]


def test_minutes_are_in_order_newest_last_and_those_past_the_hour_are_left_out() -> None:
    assert answer(CONTENTS, "events", NOON) == {
        "minutes": [
            {"minute": "2027-01-15T07:01:00Z", "counts": {"order.placed": 7}},
            {"minute": "2027-01-15T08:00:00Z", "counts": {"order.placed": 12, "order.cancelled": 1, "order.paid": 1}},
        ]
    }


def test_the_most_frequent_name_is_first_then_by_name() -> None:
    newest = answer(CONTENTS, "events", NOON)["minutes"][-1]
    assert list(newest["counts"]) == ["order.placed", "order.cancelled", "order.paid"]


def test_a_view_shows_its_own_counts_alone() -> None:
    assert answer(CONTENTS, "sagas", NOON) == {
        "minutes": [{"minute": "2027-01-15T08:00:00Z", "counts": {"saga.completed": 3}}]
    }


def test_a_view_without_counts_is_empty() -> None:
    assert answer(CONTENTS, "dead-letters", NOON) == {"minutes": []}


def test_health_says_starting_until_there_is_something_to_read_from() -> None:
    assert health(["b", "a"], None) == {"status": "starting", "topics": ["a", "b"]}


def test_health_says_how_much_is_yet_to_be_read() -> None:
    assert health(["a"], 5) == {"status": "ok", "topics": ["a"], "behind": 5}


def test_what_is_yet_to_be_read_is_added_up_over_the_partitions() -> None:
    next_offsets = {("a", 0): 3, ("a", 1): 10, ("b", 0): 8}
    ends = {("a", 0): 5, ("a", 1): 10, ("b", 0): 7, ("c", 0): 9}  # b: its end was asked for before the last record
    assert records_behind(next_offsets, ends) == 2


def test_answers_are_json() -> None:
    assert orjson.loads(orjson.dumps(answer(CONTENTS, "sagas", NOON)))["minutes"][0]["counts"] == {"saga.completed": 3}
