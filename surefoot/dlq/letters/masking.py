"""What may be shown of a dead letter's record to whoever has no permission to see the person in it. Pure.

The data go by their declaration (`surefoot.events.masking`). Of the headers, the attributes of the event are shown;
what others put beside them is masked, because nobody declared it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from surefoot.events import BadRecord, Catalogue, decode
from surefoot.events.binding import CONTENT_TYPE, version_of
from surefoot.events.masking import MASK, NotJson, all_masked, json_of, masked
from surefoot.events.text import printable

__all__ = ["MASK", "Payload", "PayloadForm", "masked", "masked_headers", "masked_payload", "plain_headers"]

PayloadForm = Literal["json", "other", "none"]
Headers = Sequence[tuple[str, bytes | None]]
MAX_HEADER = 4000


@dataclass(frozen=True, slots=True)
class Payload:
    """An event's data for people: JSON values, or why there are none."""

    form: PayloadForm
    value: Any = None


def masked_payload(value: bytes | None, headers: Headers, catalogue: Catalogue) -> Payload:
    """The data of the event in a record; of a record that is no event, its value with everything masked."""
    if value is None:
        return Payload("none")
    try:
        try:
            envelope = decode(headers, value)
        except BadRecord:
            return Payload("json", all_masked(json_of(value)))
        if envelope.data is None:
            return Payload("none")
        return Payload("json", masked(envelope.data, envelope.type, version_of(envelope), catalogue))
    except NotJson:
        return Payload("other")


def plain_payload(value: bytes | None, headers: Headers) -> Payload:
    """The same data unmasked, for who may see them."""
    try:
        data = decode(headers, value).data
    except BadRecord:
        data = value
    try:
        return Payload("none") if data is None else Payload("json", json_of(data))
    except NotJson:
        return Payload("other")


def masked_headers(headers: Headers) -> list[tuple[str, str | None]]:
    return [
        (printable(name, MAX_HEADER), _text(value) if _is_an_attribute(name) or value is None else MASK)
        for name, value in headers
    ]


def plain_headers(headers: Iterable[tuple[str, bytes | None]]) -> list[tuple[str, str | None]]:
    return [(printable(name, MAX_HEADER), _text(value)) for name, value in headers]


def _is_an_attribute(name: str) -> bool:
    return name.startswith("ce_") or name.lower() == CONTENT_TYPE


def _text(value: bytes | None) -> str | None:
    return None if value is None else printable(value.decode(errors="replace"), MAX_HEADER)
