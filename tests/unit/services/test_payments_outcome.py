"""The fourth act of the demo ends well only if each charge was taken, booked, published and answered once."""

from dataclasses import replace
from typing import Any

from services.demo.payments import Ended
from tests.support.corpus import each_of

WELL = Ended(sent=9, answers=(1, 1), at_provider=2, lines=2, published=2)


def test_two_charges_once_each_are_well() -> None:
    assert WELL.is_well


@each_of(
    "changes",
    [
        {"answers": (1, 2)},
        {"answers": ()},
        {"at_provider": 3},
        {"at_provider": 1},
        {"lines": 3},
        {"published": 1},
        {"findings": ["charge ch_1 was taken 2 times at the provider"]},
        {"in_time": False},
    ],
)
def test_anything_else_is_not(changes: dict[str, Any]) -> None:
    assert not replace(WELL, **changes).is_well
