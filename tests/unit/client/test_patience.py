"""How long a client rests between attempts."""

from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from surefoot.client import Patience
from surefoot.errors import ConfigurationError
from tests.support.corpus import each_of

PATIENCE = Patience(base=timedelta(milliseconds=100), longest=timedelta(seconds=2))


@each_of(
    ("n", "shortest_ms", "longest_ms"),
    [(0, 50, 100), (1, 100, 200), (2, 200, 400), (4, 800, 1600), (5, 1000, 2000), (6, 1000, 2000), (5000, 1000, 2000)],
)
def test_a_rest_is_between_half_and_all_of_a_doubling_time(n: int, shortest_ms: int, longest_ms: int) -> None:
    assert PATIENCE.rest(n, 0.0) == timedelta(milliseconds=shortest_ms)
    assert PATIENCE.rest(n, 1.0) == timedelta(milliseconds=longest_ms)


@settings(derandomize=True)
@given(some.integers(0, 10_000), some.floats(0, 1), some.floats(0, 1))
def test_more_chance_is_never_a_shorter_rest(n: int, one: float, other: float) -> None:
    less, more = sorted((one, other))

    assert PATIENCE.rest(n, less) <= PATIENCE.rest(n, more)


@pytest.mark.parametrize(
    "wrong",
    [
        {"attempts": 0},
        {"within": timedelta(0)},
        {"base": timedelta(seconds=-1)},
        {"base": timedelta(seconds=2), "longest": timedelta(seconds=1)},
    ],
)
def test_patience_that_cannot_be_had_is_refused(wrong: dict[str, timedelta]) -> None:
    with pytest.raises(ConfigurationError, match="A client needs"):
        Patience(**wrong)  # type: ignore[arg-type]
