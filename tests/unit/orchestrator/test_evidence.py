"""Which command a parked record answers, read from what is stored of it."""

import base64
import json

from orchestrator.evidence import cause_of


def headers(**given: str) -> str:
    pairs = {name.replace("__", "-"): base64.b64encode(value.encode()).decode() for name, value in given.items()}
    return json.dumps([[name, value] for name, value in pairs.items()])


def test_it_is_a_header_where_the_event_is_in_the_headers() -> None:
    assert cause_of(headers(ce_id="1", ce_causationid="command-1"), b"{}") == "command-1"


def test_it_is_in_the_body_where_the_whole_event_is() -> None:
    body = json.dumps({"id": "1", "causationid": "command-1"}).encode()
    assert cause_of(headers(content__type="application/cloudevents+json; charset=utf-8"), body) == "command-1"


def test_what_cannot_be_read_answers_nothing() -> None:
    structured = headers(content__type="application/cloudevents+json")
    assert [cause_of(structured, body) for body in (None, b"", b"no json", b"[]", b'{"id": "1"}')] == [None] * 5
    assert cause_of(headers(content__type="application/json"), b'{"causationid": "command-1"}') is None
    assert cause_of("[]", None) is None
