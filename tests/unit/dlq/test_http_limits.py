"""How much one person may ask for, and how many strangers are written down."""

from surefoot.admin import auth as limits
from surefoot.admin.auth import Buckets, FewAMinute


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_so_many_at_once_and_then_so_many_a_second() -> None:
    clock = Clock()
    buckets = Buckets(2, 3, clock=clock)
    assert [buckets.take("ada") for _ in range(5)] == [0, 0, 0, 1, 1]
    clock.now = 1
    assert [buckets.take("ada") for _ in range(3)] == [0, 0, 1]
    clock.now = 1000
    assert [buckets.take("ada") for _ in range(4)] == [0, 0, 0, 1]


def test_one_person_does_not_use_up_what_another_may() -> None:
    buckets = Buckets(1, 1, clock=Clock())
    assert (buckets.take("ada"), buckets.take("ada"), buckets.take("bob")) == (0, 1, 0)


def test_a_slow_rate_says_how_long_to_wait() -> None:
    buckets = Buckets(1 / 60, 1, clock=Clock())
    assert (buckets.take("ada"), buckets.take("ada")) == (0, 60)


def test_names_are_forgotten_before_they_fill_the_memory() -> None:
    buckets = Buckets(1, 1, clock=Clock())
    for number in range(limits.MOST_NAMES + 10):
        buckets.take(str(number))
    assert len(buckets._buckets) == limits.MOST_NAMES


def test_many_addresses_are_not_many_times_as_much() -> None:
    few = FewAMinute(6, clock=Clock())
    assert sum(few.allows("one") for _ in range(100)) == 6
    assert sum(few.allows(str(number)) for number in range(1000)) == 54
