"""Events: what new_event fills in, and what encode_data refuses before it is committed."""

from dataclasses import FrozenInstanceError, replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surefoot.errors import FloatMoney, InvalidEvent, UndeclaredEvent
from surefoot.events import Catalogue, EventData, Money, Topic, encode_data, new_event
from tests.support.corpus import each_of
from tests.support.order_types import OrderNoted, OrderPlaced, OrderPlacedV2, placed, unchecked

NOON = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)


def test_a_new_event_takes_everything_from_its_declaration() -> None:
    event = new_event(placed("o-7"), time=NOON)
    assert (event.source, event.type, event.version, event.key) == ("/orders", "order.placed", 1, "o-7")
    assert event.time == NOON
    assert event.correlation_id == event.id
    assert event.causation_id is None
    assert (event.sequence, event.traceparent, event.tracestate, event.subject) == (None, None, None, None)
    assert event.extensions == {}


def test_an_id_is_a_uuid_of_version_seven() -> None:
    first, second = new_event(placed()), new_event(placed())
    assert UUID(first.id).version == 7
    assert first.id != second.id
    assert str(UUID(first.id)) == first.id


def test_an_event_without_a_key_goes_under_its_own_id() -> None:
    event = new_event(OrderNoted())
    assert event.key == event.id


def test_what_is_given_is_kept() -> None:
    event = new_event(
        placed(),
        id="e-1",
        key="k",
        correlation_id="flow",
        traceparent="tp",
        tracestate="ts",
        extensions={"tenant": "a"},
    )
    assert (event.id, event.key, event.correlation_id) == ("e-1", "k", "flow")
    assert (event.traceparent, event.tracestate, event.extensions) == ("tp", "ts", {"tenant": "a"})


def test_an_event_belongs_to_the_flow_of_its_cause() -> None:
    first = new_event(placed(), id="first", correlation_id="flow")
    second = new_event(OrderNoted(), id="second", caused_by=first)
    third = new_event(OrderNoted(), caused_by=second)
    assert (second.correlation_id, second.causation_id) == ("flow", "first")
    assert (third.correlation_id, third.causation_id) == ("flow", "second")


def test_a_cause_without_a_flow_starts_one() -> None:
    cause = replace(new_event(placed(), id="first"), correlation_id=None)
    assert new_event(OrderNoted(), caused_by=cause).correlation_id == "first"


def test_a_given_flow_wins_over_that_of_the_cause() -> None:
    cause = new_event(placed(), correlation_id="flow")
    assert new_event(OrderNoted(), caused_by=cause, correlation_id="other").correlation_id == "other"


def test_times_are_kept_in_utc() -> None:
    event = new_event(placed(), time=datetime(2026, 1, 31, 13, 0, tzinfo=timezone(timedelta(hours=1))))
    assert event.time == NOON
    assert event.time.tzinfo is UTC
    assert new_event(placed()).time.tzinfo is UTC


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(InvalidEvent, match="no time zone"):
        new_event(placed(), time=datetime(2026, 1, 31))


def test_an_event_is_frozen() -> None:
    event = new_event(placed())
    with pytest.raises(FrozenInstanceError):
        event.key = "other"  # type: ignore[misc]


def test_undeclared_data_are_refused() -> None:
    class Stranger(EventData):
        pass

    with pytest.raises(UndeclaredEvent):
        new_event(Stranger())
    with pytest.raises(UndeclaredEvent):
        encode_data(replace(new_event(OrderNoted()), data=Stranger()))  # type: ignore[arg-type]


@pytest.mark.parametrize("changed", [{"type": "order.noted"}, {"version": 2}])
def test_an_event_that_says_another_type_than_its_data_is_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(InvalidEvent, match=r"declared as order.placed version 1"):
        encode_data(replace(new_event(placed()), **changed))


def test_data_are_encoded_as_json() -> None:
    event = new_event(placed("o-1", note="für Ä", tags=["a"]))
    expected = '{"order_id":"o-1","total":{"minor_units":1999,"currency":"EUR"},"note":"für Ä","tags":["a"]}'
    assert encode_data(event) == expected.encode()


def test_fields_go_out_under_their_aliases(catalogue: Catalogue, topic: Topic) -> None:
    from pydantic import Field

    @catalogue.event("a.renamed", topic=topic, key="order_id")
    class Renamed(EventData):
        order_id: str = Field(alias="orderId")

    assert encode_data(new_event(Renamed(orderId="o-1"))) == b'{"orderId":"o-1"}'


@each_of(
    ("data", "field"),
    [
        (unchecked(OrderPlaced, order_id=5, total=Money(1, "EUR"), note=None, tags=[]), "order_id"),
        (unchecked(OrderPlaced, total=Money(1, "EUR"), note=None, tags=[]), "order_id"),
        (unchecked(OrderPlaced, order_id="o-1", total="1 EUR", note=None, tags=[]), "total"),
        (unchecked(OrderPlaced, order_id="o-1", total=Money(1, "EUR"), note=None, tags=[1]), "tags.0"),
        (unchecked(OrderPlaced, order_id="o-1", total=Money(1, "EUR"), note="\ud800", tags=[]), "note"),
        (unchecked(OrderNoted, anything=object(), weight=None, rate=None), "anything"),
        (unchecked(OrderNoted, anything=None, weight="heavy", rate=None), "weight"),
    ],
)
def test_data_made_without_validation_are_refused_by_field(data: EventData, field: str) -> None:
    with pytest.raises(InvalidEvent, match=rf"\b{field}: "):
        encode_data(new_event(data, key="k"))


def test_a_number_as_text_is_refused_though_a_reader_might_mend_it() -> None:
    data = unchecked(OrderPlacedV2, order_id=UUID(int=1), lines="5")
    with pytest.raises(InvalidEvent, match="lines: "):
        encode_data(new_event(data))


def test_data_changed_after_validation_are_refused() -> None:
    data = placed(tags=["a"])
    data.tags.append(7)  # type: ignore[arg-type]
    with pytest.raises(InvalidEvent, match=r"tags\.1: "):
        encode_data(new_event(data))


def test_the_refusal_never_shows_the_value() -> None:
    data = placed(tags=["a"])
    data.tags.append(4111111111111111)  # type: ignore[arg-type]
    with pytest.raises(InvalidEvent) as refused:
        encode_data(new_event(data))
    assert "4111" not in str(refused.value)
    assert refused.value.__cause__ is None


def test_a_float_that_got_into_a_money_field_is_float_money() -> None:
    data = unchecked(OrderPlaced, order_id="o-1", total=19.99, note=None, tags=[])
    with pytest.raises(FloatMoney):
        encode_data(new_event(data))


@pytest.mark.parametrize("note", ["\0", "a\0b", "\\\0", "\\\\\0", "\\u0000\0"])
def test_a_nul_in_a_text_is_refused_by_field(note: str) -> None:
    with pytest.raises(InvalidEvent, match="NUL character in note"):
        encode_data(new_event(placed(note=note)))


def test_a_nul_in_the_name_of_a_member_is_refused() -> None:
    with pytest.raises(InvalidEvent, match="NUL character in anything"):
        encode_data(new_event(OrderNoted(anything={"deep": [{"a\0": 1}]})))


@pytest.mark.parametrize("note", ["\\u0000", "\\\\u0000", "a\\u0000b", "u0000", "\\\\\\u0000"])
def test_the_letters_of_an_escape_are_no_nul(note: str) -> None:
    event = new_event(placed(note=note))
    assert OrderPlaced.model_validate_json(encode_data(event)).note == note


@given(st.text(alphabet="\\u0\0x", max_size=12))
def test_a_nul_is_refused_exactly_when_there_is_one(note: str) -> None:
    event = new_event(placed(note=note))
    if "\0" in note:
        with pytest.raises(InvalidEvent):
            encode_data(event)
    else:
        assert OrderPlaced.model_validate_json(encode_data(event)).note == note


@each_of(
    "attributes",
    [
        {"key": "a\0"},
        {"id": "a\0"},
        {"correlation_id": "a\0"},
        {"causation_id": "a\x1f"},
        {"traceparent": "a\0"},
        {"tracestate": "a\0"},
        {"subject": "a\0"},
        {"sequence": "\0"},
        {"extensions": {"tenant": "a\0"}},
        {"key": "\ud800"},
    ],
)
def test_a_control_character_in_an_attribute_is_refused(attributes: dict[str, Any]) -> None:
    with pytest.raises(InvalidEvent, match="control character"):
        encode_data(replace(new_event(placed()), **attributes))


@pytest.mark.parametrize("attributes", [{"key": ""}, {"id": ""}, {"id": " "}, {"subject": ""}])
def test_an_empty_id_key_or_subject_is_refused(attributes: dict[str, Any]) -> None:
    with pytest.raises(InvalidEvent, match=f"has an empty {next(iter(attributes))}"):
        encode_data(replace(new_event(placed()), **attributes))


def test_an_attribute_that_is_no_text_is_refused() -> None:
    with pytest.raises(InvalidEvent, match="not a text"):
        encode_data(new_event(placed(), extensions={"attempt": 1}))  # type: ignore[dict-item]


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_what_json_cannot_express_is_refused(number: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        OrderNoted(weight=number)
    for data in (
        unchecked(OrderNoted, anything=None, weight=number, rate=None),
        OrderNoted(anything={"deep": [number]}),
    ):
        with pytest.raises(InvalidEvent):
            encode_data(new_event(data))


def test_a_text_that_says_nan_is_no_number() -> None:
    assert encode_data(new_event(OrderNoted(anything="NaN Infinity"))).startswith(b'{"anything":"NaN Infinity"')
