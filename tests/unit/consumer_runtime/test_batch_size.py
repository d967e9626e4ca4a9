"""A batch takes as many records as can be worked off in its time."""

from datetime import timedelta

from surefoot.consumer_runtime.buffer import BatchSize
from surefoot.consumer_runtime.settings import ConsumerSettings


def size(**changes: object) -> BatchSize:
    return BatchSize(ConsumerSettings(**{"batch_time": timedelta(seconds=1), **changes}))  # type: ignore[arg-type]


def test_it_begins_with_one_and_doubles_while_batches_are_quick() -> None:
    batches = size(batch_records=10)
    seen = []
    for _ in range(6):
        seen.append(batches.records)
        batches.learn(batches.records, 0.01)
    assert seen == [1, 2, 4, 8, 10, 10]


def test_a_slow_batch_makes_the_next_one_as_large_as_fits() -> None:
    batches = size(batch_first=100)
    batches.learn(100, 4.0)
    assert batches.records == 25
    batches.learn(25, 1.0)
    assert batches.records == 25


def test_there_is_always_one() -> None:
    batches = size()
    batches.learn(1, 60.0)
    assert batches.records == 1


def test_a_batch_that_was_not_full_says_nothing_about_larger_ones() -> None:
    batches = size(batch_first=8)
    batches.learn(3, 0.01)
    assert batches.records == 8


def test_batches_of_the_same_size_that_run_side_by_side_double_it_once() -> None:
    """The partitions of a topic share what they learn."""
    batches = size(batch_first=8)
    for _ in range(4):
        batches.learn(8, 0.01)
    assert batches.records == 16


def test_a_part_of_a_batch_that_was_slow_counts_by_its_own_size() -> None:
    batches = size(batch_first=64)
    batches.learn(4, 2.0)
    assert batches.records == 2
