"""Commands: the saga, step and direction that an event carries as extensions."""

import pytest

from surefoot.errors import InvalidEvent
from surefoot.events import decode, encode, encode_data, event_type_of, new_event, to_event
from surefoot.events.event import Command, command_of
from tests.support.corpus import each_of
from tests.support.shop_types import CapturePayment

WHOLE = {"sagaid": "s-1", "sagastep": "capture", "sagadirection": "do", "sagaattempt": "2"}


def told(extensions: dict[str, str]) -> Command | None:
    return command_of(new_event(CapturePayment(order_id="o-1"), extensions=extensions))


def test_a_command_says_which_step_of_which_saga_it_is() -> None:
    assert told(WHOLE) == Command("s-1", "capture", "do", 2)
    assert told({**WHOLE, "sagadirection": "undo"}) == Command("s-1", "capture", "undo", 2)


def test_a_command_survives_the_wire() -> None:
    command = Command("s-1", "capture", "undo", 3)
    event = new_event(CapturePayment(order_id="o-1"), extensions=command.extensions())
    value = encode_data(event)
    read = to_event(decode(encode(event, value), value), event_type_of(CapturePayment))
    assert command_of(read) == command


def test_an_event_without_these_attributes_is_no_command() -> None:
    assert told({}) is None
    assert told({"other": "x", "sagaattempt": "3"}) is None


def test_without_an_attempt_it_is_the_first() -> None:
    assert told({name: text for name, text in WHOLE.items() if name != "sagaattempt"}) == Command("s-1", "capture")


@pytest.mark.parametrize("missing", ["sagaid", "sagastep", "sagadirection"])
def test_half_a_command_is_refused(missing: str) -> None:
    with pytest.raises(InvalidEvent, match=r"The command payment\.capture"):
        told({name: text for name, text in WHOLE.items() if name != missing})


@each_of(
    "change",
    [
        {"sagaid": ""},
        {"sagastep": ""},
        {"sagaid": "s" * 201},
        {"sagastep": "s" * 201},
        {"sagadirection": "redo"},
        {"sagaattempt": "0"},
        {"sagaattempt": "-1"},
        {"sagaattempt": "second"},
        {"sagaattempt": "²"},
        {"sagaattempt": ""},
        {"sagaattempt": "1000000"},
        {"sagaattempt": "9" * 5000},
    ],
)
def test_a_command_with_a_bad_attribute_is_refused(change: dict[str, str]) -> None:
    with pytest.raises(InvalidEvent, match=r"The command payment\.capture"):
        told({**WHOLE, **change})
