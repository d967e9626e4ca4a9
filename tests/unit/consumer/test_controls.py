"""Control records: read strictly, and addressed by a header."""

import base64
from typing import Any

import pytest
from pydantic import ValidationError

from surefoot.consumer.contracts import TARGET_HEADER, Control, Replacement, target_of


def base64_of(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def control(**changes: Any) -> dict[str, Any]:
    given = {"action": "replay", "consumer": "warehouse", "source": "/shop", "event_id": "e-1", "by": "eve", "why": "x"}
    return {**given, **changes}


def test_a_control_names_the_event_the_consumer_and_who_decided() -> None:
    read = Control.model_validate(control(unknown="ignored"))
    assert (read.action, read.consumer, read.source, read.event_id) == ("replay", "warehouse", "/shop", "e-1")
    assert (read.by, read.why, read.replacement) == ("eve", "x", None)


@pytest.mark.parametrize("change", [{"action": "explode"}, {"by": ""}, {"why": ""}, {"event_id": None}])
def test_a_control_that_is_not_complete_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Control.model_validate(control(**change))


def test_a_replacement_is_a_whole_record_byte_for_byte() -> None:
    value, header = b'{"n": 1}\xff', b"\x00\xfe"
    given = {"value": base64_of(value), "headers": [["ce_id", base64_of(b"e-2")], ["raw", base64_of(header)]]}
    replacement = Control.model_validate(control(action="supersede", replacement=given)).replacement
    assert replacement is not None
    assert replacement.value_bytes() == value
    assert replacement.header_bytes() == (("ce_id", b"e-2"), ("raw", header))


def test_a_replacement_may_have_no_value_and_that_is_not_an_empty_one() -> None:
    assert Replacement(value=None, headers=()).value_bytes() is None
    assert Replacement(value="", headers=()).value_bytes() == b""


@pytest.mark.parametrize("given", [{"value": "***", "headers": ()}, {"value": None, "headers": [["a", "abc"]]}])
def test_what_is_not_base64_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="is not Base64"):
        Replacement.model_validate(given)


def test_the_target_is_in_the_header_and_may_be_missing() -> None:
    assert target_of([("ce_id", b"e-1"), (TARGET_HEADER, b"warehouse")]) == "warehouse"
    assert target_of([("ce_id", b"e-1")]) is None
    assert target_of([(TARGET_HEADER, None)]) is None


def test_a_target_that_is_no_text_is_nobody_instead_of_an_error() -> None:
    assert target_of([(TARGET_HEADER, b"\xff")]) == "\N{REPLACEMENT CHARACTER}"
