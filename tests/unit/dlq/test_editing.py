"""An edited event: new data, an id of its own, caused by the old, and all else as it was."""

import base64
import json
from datetime import UTC, datetime

import pytest

from surefoot.consumer.contracts import Replacement
from surefoot.dlq.errors import InvalidEdit
from surefoot.dlq.jobs.controls import DeadRecord, edited
from surefoot.events import decode, encode, new_event
from surefoot.events.event import encode_model
from tests.support.corpus import each_of
from tests.support.event_types import ThingHappened, catalogue

NOW = datetime(2026, 11, 17, 12, 0, 0, tzinfo=UTC)
NEW_ID = "0192f0c1-7a3e-7c41-9d0a-6f1f0d6f3b11"
OLD = new_event(
    ThingHappened(thing_id="a", number=1),
    correlation_id="flow-1",
    traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
)
BODY = encode_model(OLD.data, OLD.type)
DEAD = DeadRecord(b"a", BODY, (*encode(OLD, BODY), ("x-tenant", b"\xffblue")), 0)


def of(replacement: Replacement) -> tuple[dict[str, str], object, dict[str, bytes]]:
    """The attributes, the data and the headers of the edited event."""
    headers = replacement.header_bytes()
    envelope = decode(headers, replacement.value_bytes(), b"a")
    return dict(envelope.attributes), json.loads(envelope.data or b""), dict(headers)


def edit(payload: object, dead: DeadRecord = DEAD, known: bool = True) -> Replacement:
    return edited(dead, payload, new_id=NEW_ID, now=NOW, catalogue=catalogue if known else None)


def test_it_has_the_new_data_an_id_of_its_own_and_is_caused_by_the_old() -> None:
    attributes, data, _ = of(edit({"thing_id": "a", "number": 2}))
    assert data == {"thing_id": "a", "number": 2}
    assert attributes["id"] == NEW_ID
    assert attributes["causationid"] == OLD.id
    assert attributes["time"] == "2026-11-17T12:00:00.000000Z"


def test_type_source_key_flow_trace_and_the_producers_own_headers_stay() -> None:
    attributes, _, headers = of(edit({"thing_id": "a", "number": 2}))
    assert (attributes["type"], attributes["source"], attributes["partitionkey"]) == ("thing.happened", "/tests", "a")
    assert attributes["correlationid"] == "flow-1"
    assert attributes["traceparent"] == OLD.traceparent
    assert headers["x-tenant"] == b"\xffblue"
    assert headers["content-type"] == b"application/json"


def test_no_header_is_there_twice() -> None:
    names = [name for name, _ in edit({"thing_id": "a"}).header_bytes()]
    assert len(names) == len(set(names))


def test_an_event_in_structured_mode_is_edited_too() -> None:
    value = {"specversion": "1.0", "id": "old", "source": "/tests", "type": "thing.happened", "data": {"thing_id": "a"}}
    dead = DeadRecord(
        b"a", json.dumps(value).encode(), (("content-type", b"application/cloudevents+json"),), headers_left_out=0
    )
    attributes, data, _ = of(edit({"thing_id": "a", "number": 3}, dead))
    assert data == {"thing_id": "a", "number": 3}
    assert (attributes["id"], attributes["causationid"], attributes["correlationid"]) == (NEW_ID, "old", "old")


def test_an_event_whose_data_were_broken_can_be_mended() -> None:
    broken = DeadRecord(DEAD.key, b"{not json", DEAD.headers, 0)
    _, data, _ = of(edit({"thing_id": "a"}, broken))
    assert data == {"thing_id": "a"}


def test_numbers_stay_as_they_were_written() -> None:
    replacement = edit({"thing_id": "a", "number": 12345678901234567890123}, known=False)
    assert replacement.value_bytes() == b'{"thing_id":"a","number":12345678901234567890123}'


@each_of(
    ("payload", "said"),
    [
        ({"number": 2}, "does not fit its type"),
        ({"thing_id": "a", "number": "many"}, "does not fit its type"),
        ([1, 2], "does not fit its type"),
        (None, "does not fit its type"),
        ({"thing_id": "b"}, "another key"),
        ({"thing_id": ""}, "no key"),
        ({"thing_id": "a", "note": "\x00"}, "NUL"),
        ({"thing_id": "a", "note": "\ud800"}, "cannot be written as JSON"),
        ({"thing_id": "a", "number": float("nan")}, "cannot be written as JSON"),
        ({"thing_id": "a", "note": {1, 2}}, "cannot be written as JSON"),
    ],
)
def test_what_its_consumer_could_not_take_is_refused_here_with_a_sentence(payload: object, said: str) -> None:
    with pytest.raises(InvalidEdit, match=said):
        edit(payload)


def test_data_that_are_nested_too_deep_are_refused() -> None:
    deep: object = 1
    for _ in range(300):
        deep = [deep]
    with pytest.raises(InvalidEdit, match="nested"):
        edit({"thing_id": "a", "note": deep}, known=False)


def test_of_a_type_that_is_not_known_here_only_json_is_asked() -> None:
    _, data, _ = of(edit({"anything": True}, known=False))
    assert data == {"anything": True}


def test_a_record_that_is_no_event_cannot_be_edited() -> None:
    with pytest.raises(InvalidEdit, match="no event"):
        edit({"thing_id": "a"}, DeadRecord(None, b"{}", (), 0))


def test_an_event_of_which_headers_are_missing_cannot_be_edited() -> None:
    with pytest.raises(InvalidEdit, match="3 did not fit"):
        edit({"thing_id": "a"}, DeadRecord(DEAD.key, DEAD.value, DEAD.headers, 3))


def test_an_event_whose_data_are_not_json_cannot_be_edited() -> None:
    headers = tuple((n, b"text/plain" if n == "content-type" else v) for n, v in DEAD.headers)
    with pytest.raises(InvalidEdit, match="not JSON"):
        edit({"thing_id": "a"}, DeadRecord(DEAD.key, DEAD.value, headers, 0))


def test_it_travels_in_base64() -> None:
    assert base64.b64decode(edit({"thing_id": "a"}).value or "") == b'{"thing_id":"a"}'
