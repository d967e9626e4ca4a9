"""What a reader takes and refuses once the envelope is good: versions, numbers that are none, and what is policy."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surefoot.events import BadRecord, Envelope, Event, EventData, EventType, decode, event_type_of, to_event
from surefoot.events.binding import version_of
from surefoot.events.envelope import USUAL_ATTRIBUTES, check
from tests.support.bad_records.case import HAPPENED, good_headers, structured
from tests.support.corpus import each_of
from tests.support.event_types import ThingCounted, ThingHappened, ThingHappenedV3


def happened(value: bytes = HAPPENED, dataschema: str | None = None) -> Envelope:
    headers: dict[str, bytes | None] = {**good_headers("e-1")}
    headers["ce_dataschema"] = None if dataschema is None else dataschema.encode()
    return decode(list(headers.items()), value, b"t-1")


def data_of(value: bytes) -> ThingHappened:
    return to_event(happened(value), event_type_of(ThingHappened)).data


def refusal(envelope: Envelope, event_type: EventType[Any]) -> BadRecord:
    with pytest.raises(BadRecord) as refused:
        to_event(envelope, event_type)
    return refused.value


# Versions


@pytest.mark.parametrize("declared", [ThingHappened, ThingHappenedV3])
@pytest.mark.parametrize("dataschema", ["urn:surefoot:thing.paid:1", "URN:surefoot:thing.happened:latest"])
def test_a_dataschema_of_ours_that_names_no_version_of_the_type_fits_no_declaration(
    declared: type[EventData], dataschema: str
) -> None:
    envelope = happened(dataschema=dataschema)
    assert version_of(envelope) is None  # so a consumer tries its oldest declaration
    refused = refusal(envelope, event_type_of(declared))
    assert refused.reason == "wrong_version"
    assert "of another type or of no version" in str(refused)
    assert "None" not in str(refused)


def test_a_version_in_capitals_is_that_version() -> None:
    envelope = happened(dataschema="URN:Surefoot:thing.happened:3")
    assert version_of(envelope) == 3
    assert to_event(envelope, event_type_of(ThingHappenedV3)).version == 3
    assert "is of version 3, and this reader knows version 1" in str(refusal(envelope, event_type_of(ThingHappened)))


@each_of("dataschema", [None, "https://example.com/3", "urn:surefooted:thing.happened:3", "urn:a:b"])
@pytest.mark.parametrize(("declared", "version"), [(ThingHappened, 1), (ThingHappenedV3, 3)])
def test_an_event_that_does_not_say_its_version_is_read_as_whatever_is_declared(
    dataschema: str | None, declared: type[EventData], version: int
) -> None:
    envelope = happened(dataschema=dataschema)
    assert version_of(envelope) is None
    assert to_event(envelope, event_type_of(declared)).version == version


# Numbers


@pytest.mark.parametrize(
    "value",
    [
        b'{"thing_id":"NaN","x":1e999}',
        b'{"thing_id":"NaN","x":' + b"9" * 1_000 + b"}",
        b'{"thing_id":"NaN","Infinity":"-Infinity"}',
        b'{"thing_id":"NaN","x":"\\"NaN\\\\"}',
    ],
)
def test_the_word_nan_in_a_text_is_a_text(value: bytes) -> None:
    assert data_of(value).thing_id == "NaN"


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (b'{"thing_id":"t-1","number":"7"}', 7),
        (b'{"thing_id":"t-1","number":" 7 "}', 7),
        (b'{"thing_id":"t-1","number":7.0}', 7),
        (b'{"thing_id":"t-1","number":true}', 1),
    ],
)
def test_a_number_in_another_form_is_accepted_by_policy(value: bytes, number: int) -> None:
    assert data_of(value).number == number


@pytest.mark.parametrize("value", [b'{"count":"7"}', b'{"count":true}', b'{"count":7.0}'])
def test_a_strict_field_takes_no_number_in_another_form(value: bytes) -> None:
    counted = event_type_of(ThingCounted)
    headers = list(good_headers("e-1", "thing.counted").items())
    assert to_event(decode(headers, b'{"count":7}'), counted).data.count == 7
    assert refusal(decode(headers, value), counted).reason == "invalid_data"


def test_a_nul_in_the_data_is_read() -> None:
    assert data_of(b'{"thing_id":"t-1","note":"a\\u0000b"}').note == "a\0b"


# Depth


def from_a_stack_of(frames: int, record: tuple[Any, bytes]) -> str:
    """What becomes of a record whose reader is called so deep in a program."""
    if frames:
        return from_a_stack_of(frames - 1, record)
    try:
        return decode(*record).id
    except BadRecord as bad:
        return bad.reason


@pytest.mark.parametrize("levels", [199, 200, 201, 400, 800, 1_200])
def test_whether_a_deep_event_is_identified_does_not_depend_on_the_stack(levels: int) -> None:
    _, value, headers = structured("e-1", "invalid_json", data="[" * levels + "]" * levels).record
    assert value is not None
    answers = {from_a_stack_of(frames, (headers, value)) for frames in (0, 100, 300, 500)}
    assert answers == {"e-1" if levels <= 200 else "invalid_json"}


# The quick ways


def test_every_field_of_an_event_is_where_it_belongs() -> None:
    attributes = {name: f"the {name}" for name in USUAL_ATTRIBUTES}
    attributes |= {"type": "thing.happened", "datacontenttype": "application/json", "tenant": "the tenant"}
    noon = datetime(2026, 1, 31, 12, tzinfo=UTC)
    envelope = Envelope(attributes, b'{"thing_id":"t-1"}', b"k", noon)
    event = to_event(envelope, event_type_of(ThingHappened))
    assert event == Event(
        data=ThingHappened(thing_id="t-1"),
        id="the id",
        source="the source",
        type="thing.happened",
        version=1,
        time=noon,
        key="the partitionkey",
        correlation_id="the correlationid",
        causation_id="the causationid",
        sequence="the sequence",
        traceparent="the traceparent",
        tracestate="the tracestate",
        subject="the subject",
        extensions={"tenant": "the tenant"},
    )
    with pytest.raises(AttributeError):
        event.id = "another"  # type: ignore[misc]


names = st.sampled_from(["subject", "traceparent", "tenant", "Tenant", "data", "data_base64", "a_b", ""])
texts = st.text(st.sampled_from(["a", " ", "~", "ä", "\x00", "\x1f", "\x7f", "\x80", "\ud800", "\uffff", "😀"]))
FORBIDDEN = set("\x00\x1f\x7f\x80\ud800\uffff")


@given(st.dictionaries(names, texts.filter(bool), max_size=4))
def test_the_first_bad_attribute_is_the_one_that_is_named(more: dict[str, str]) -> None:
    expected = None
    for name, text in more.items():
        if name in ("Tenant", "data", "data_base64", "a_b", ""):
            expected = "bad_attribute_name"
        elif FORBIDDEN & set(text):
            expected = "bad_attribute_value"
        if expected:
            break
    attributes = {"specversion": "1.0", "id": "e-1", "source": "/tests", "type": "t"} | more
    if expected is None:
        assert check(attributes) is None
    else:
        with pytest.raises(BadRecord) as refused:
            check(attributes)
        assert refused.value.reason == expected
