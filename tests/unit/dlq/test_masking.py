"""What may be shown of a dead letter's record."""

import pytest

from surefoot.dlq.letters.masking import masked_headers, masked_payload, plain_headers, plain_payload
from tests.support.event_types import catalogue

BINARY: tuple[tuple[str, bytes | None], ...] = (
    ("ce_specversion", b"1.0"),
    ("ce_id", b"e-1"),
    ("ce_source", b"/tests"),
    ("ce_type", b"thing.sent_home"),
    ("ce_dataschema", b"urn:surefoot:thing.sent_home:1"),
    ("content-type", b"application/json"),
)
STRUCTURED: tuple[tuple[str, bytes | None], ...] = (("content-type", b"application/cloudevents+json"),)
DATA = b'{"thing_id": "b-1", "street": "1 Main St"}'
WHOLE = b'{"specversion": "1.0", "id": "1", "source": "/t", "type": "thing.sent_home", "data": ' + DATA + b"}"


@pytest.mark.parametrize(("value", "headers"), [(DATA, BINARY), (WHOLE, STRUCTURED)])
def test_data_are_masked_in_either_mode(value: bytes, headers: tuple[tuple[str, bytes | None], ...]) -> None:
    payload = masked_payload(value, headers, catalogue)
    assert (payload.form, payload.value) == ("json", {"thing_id": "b-1", "street": "•••"})


def test_of_a_record_that_is_no_event_everything_is_masked() -> None:
    payload = masked_payload(DATA, (), catalogue)
    assert (payload.form, payload.value) == ("json", {"thing_id": "•••", "street": "•••"})


@pytest.mark.parametrize("value", [b"\x00\xff", b"1 Main St", b"[" * 5000])
def test_what_is_no_json_is_not_shown(value: bytes) -> None:
    payload = masked_payload(value, BINARY, catalogue)
    assert (payload.form, payload.value) == ("other", None)


def test_a_record_without_a_value_has_nothing_to_show() -> None:
    assert masked_payload(None, BINARY, catalogue).form == "none"
    assert plain_payload(None, BINARY).form == "none"


def test_whoever_may_see_it_sees_it_as_it_is() -> None:
    assert plain_payload(DATA, BINARY).value == {"thing_id": "b-1", "street": "1 Main St"}
    assert plain_payload(WHOLE, STRUCTURED).value == {"thing_id": "b-1", "street": "1 Main St"}
    assert plain_payload(b"\xff", ()).form == "other"


def test_attributes_are_shown_and_foreign_headers_are_masked() -> None:
    headers = (*BINARY[:2], ("Content-Type", b"application/json"), ("x-buyer", b"Ada"), ("x-null", None))
    assert masked_headers(headers) == [
        ("ce_specversion", "1.0"),
        ("ce_id", "e-1"),
        ("Content-Type", "application/json"),
        ("x-buyer", "•••"),
        ("x-null", None),
    ]
    assert plain_headers(headers)[3] == ("x-buyer", "Ada")


def test_headers_are_text_that_can_be_shown() -> None:
    assert masked_headers([("ce_id", b"a\x00b\xff")]) == [("ce_id", "a\ufffdb\ufffd")]
