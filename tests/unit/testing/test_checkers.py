"""A checker that cannot fail is a defect: each is shown the violation it is there for."""

from surefoot.testing.checkers import (
    Committed,
    Finding,
    Mark,
    Seen,
    check_all,
    invented,
    lost,
    out_of_order,
    split_key,
    stale_write,
)

COMMITTED = [Committed("a", "k", (1,)), Committed("b", "k", (2,)), Committed("c", "l", (3,))]
GOOD = [Seen("a", "k", 0, 0), Seen("a", "k", 0, 1), Seen("b", "k", 0, 2), Seen("c", "l", 1, 0), Seen("a", "k", 0, 3)]


def test_a_log_with_repeats_in_order_is_fine() -> None:
    assert check_all(COMMITTED, GOOD) == []


def test_a_missing_event_is_lost() -> None:
    assert lost(COMMITTED, GOOD[:3]) == [Finding("lost", "c of key l was committed and is not in the log")]


def test_an_event_of_no_transaction_is_invented() -> None:
    assert invented(COMMITTED, [*GOOD, Seen("x", "k", 0, 9)]) == [
        Finding("invented", "x of key k is in the log and was never committed")
    ]


def test_two_events_of_a_key_the_wrong_way_round_are_out_of_order() -> None:
    swapped = [Seen("b", "k", 0, 0), Seen("a", "k", 0, 1), Seen("b", "k", 0, 2), Seen("c", "l", 1, 0)]
    assert out_of_order(COMMITTED, swapped) == [Finding("out_of_order", "key k: number 1 in the log is b, should be a")]


def test_a_missing_event_is_not_also_called_out_of_order() -> None:
    assert out_of_order(COMMITTED, [Seen("b", "k", 0, 0), Seen("c", "l", 1, 0)]) == []


def test_a_key_in_two_partitions_is_split() -> None:
    assert split_key([Seen("a", "k", 0, 0), Seen("b", "k", 3, 0)]) == [
        Finding("split_key", "key k lies in partitions [0, 3]")
    ]


def test_a_write_by_somebody_who_is_not_the_owner_is_stale() -> None:
    marks = [Mark(1, "relay-1", "relay-1"), Mark(2, "relay-1", "relay-2"), Mark(3, "relay-1", None)]
    assert [finding.sentence for finding in stale_write(marks)] == [
        "row 2 was written by relay-1 while relay-2 owned its shard",
        "row 3 was written by relay-1 while None owned its shard",
    ]
