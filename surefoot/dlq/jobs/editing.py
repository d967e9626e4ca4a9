"""The edited event that takes a dead one's place: new data, an id of its own, caused by the old. Pure.

Everything else stays as it was: type, source, key, flow, trace, and headers that are nobody's business but the
producer's. It is checked as the consumer will check it, as far as the type is known here.
"""

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from surefoot.consumer.contracts import Replacement
from surefoot.dlq.errors import InvalidEdit
from surefoot.errors import SurefootError
from surefoot.events import BadRecord, Catalogue, Envelope, decode, to_event
from surefoot.events.binding import CONTENT_TYPE, version_of
from surefoot.events.structured import MAX_DATA_LEVELS
from surefoot.events.text import format_time, has_nul, is_json, is_nested_deeper

_PREFIX = "ce_"


@dataclass(frozen=True, slots=True)
class DeadRecord:
    """A dead event as its letter has it."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]
    headers_left_out: int


def edited(
    dead: DeadRecord, payload: object, *, new_id: str, now: datetime, catalogue: Catalogue | None
) -> Replacement:
    """The replacement, or InvalidEdit with a sentence."""
    if dead.headers_left_out:
        raise InvalidEdit(
            f"The letter has not all headers of the event ({dead.headers_left_out} did not fit), and an edited one "
            "would lack them: have its producer send the event anew, and discard this one."
        )
    try:
        old = decode(dead.headers, dead.value, dead.key)
    except BadRecord as bad:
        raise InvalidEdit(
            f"The record is no event, and new data do not make it one: have its producer send it anew. {bad}"
        ) from bad
    body = _json(payload)
    attributes = {
        **old.attributes,
        "id": new_id,
        "time": format_time(now),
        "causationid": old.id,
        "correlationid": old.attributes.get("correlationid") or old.id,
    }
    if not is_json(attributes.get("datacontenttype")):
        raise InvalidEdit("The data of this event are not JSON, and only JSON can be edited here.")
    _check(Envelope(attributes, body, dead.key, now), old, catalogue)
    content_type = attributes.pop("datacontenttype", "application/json")
    headers = [
        *((_PREFIX + name, text.encode()) for name, text in attributes.items()),
        *(header for header in dead.headers if not _is_events_own(header[0])),
        (CONTENT_TYPE, content_type.encode()),
    ]
    return Replacement(value=_base64(body), headers=tuple((name, _base64(value)) for name, value in headers))


def _check(new: Envelope, old: Envelope, catalogue: Catalogue | None) -> None:
    """By the declaration, where it is known: what does not fit would only be refused later, by the consumer."""
    declared = None if catalogue is None else catalogue.find(new.type, version_of(new) or 1)
    if declared is None:
        return
    try:
        key = declared.key_of(to_event(new, declared).data)
    except BadRecord as bad:
        raise InvalidEdit(f"The edited event does not fit its type. {bad}") from bad
    except SurefootError as error:
        raise InvalidEdit(f"The edited event has no key. {error}") from error
    before = old.attributes.get("partitionkey")
    if key is not None and before is not None and key != before:
        raise InvalidEdit(
            f"The edited event would belong to another key ({key} instead of {before}), and it takes the place of the "
            "old one among the events of its own: leave what its key is made of as it was."
        )


def _json(payload: object) -> bytes:
    try:
        body = json.dumps(payload, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidEdit(f"The new data cannot be written as JSON: {error}.") from error
    if has_nul(body):
        raise InvalidEdit("The new data have a NUL character in a text, which Postgres cannot store: remove it.")
    if is_nested_deeper(body, MAX_DATA_LEVELS):
        raise InvalidEdit(f"The new data are nested more than {MAX_DATA_LEVELS} levels deep: make them flatter.")
    return body


def header_bytes(headers: Sequence[Sequence[str]]) -> tuple[tuple[str, bytes], ...]:
    """The headers as `dlq_events` has them: names, and values in Base64."""
    return tuple((name, base64.b64decode(value)) for name, value in headers)


def _is_events_own(name: str) -> bool:
    return name.startswith(_PREFIX) or name.lower() == CONTENT_TYPE


def _base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()
