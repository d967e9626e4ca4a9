"""How often, and after which rest."""

from datetime import timedelta

import pytest

from surefoot.consumer import Retry
from surefoot.errors import ConfigurationError


def seconds(rest: timedelta | None) -> float | None:
    return None if rest is None else rest.total_seconds()


def test_rests_double_until_the_longest_and_end_with_the_attempts() -> None:
    retry = Retry(attempts=6, first=timedelta(seconds=2), longest=timedelta(seconds=10))
    assert [seconds(retry.rest(failures, 1.0)) for failures in range(1, 7)] == [2, 4, 8, 10, 10, None]


def test_chance_takes_up_to_half_of_a_rest() -> None:
    retry = Retry(first=timedelta(seconds=8))
    assert [seconds(retry.rest(1, chance)) for chance in (0.0, 0.5, 1.0)] == [4, 6, 8]


def test_a_single_attempt_has_no_rest() -> None:
    assert Retry(attempts=1).rest(1, 1.0) is None


def test_more_failures_than_attempts_have_no_rest_either() -> None:
    assert Retry(attempts=2).rest(3, 1.0) is None


def test_a_thousand_attempts_do_not_overflow() -> None:
    assert seconds(Retry(attempts=1000).rest(999, 1.0)) == 300


@pytest.mark.parametrize("attempts", [0, -1, 1001])
def test_attempts_out_of_range_are_refused(attempts: int) -> None:
    with pytest.raises(ConfigurationError, match="choose 1 to 1000"):
        Retry(attempts=attempts)


@pytest.mark.parametrize(("first", "longest"), [(0, 5), (-1, 5), (6, 5)])
def test_rests_that_make_no_sense_are_refused(first: int, longest: int) -> None:
    with pytest.raises(ConfigurationError, match="the first rest must be above zero"):
        Retry(first=timedelta(seconds=first), longest=timedelta(seconds=longest))
