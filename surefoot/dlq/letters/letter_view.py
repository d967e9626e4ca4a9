"""From rows to what is shown of them."""

import base64
from dataclasses import dataclass
from typing import TypeVar

import orjson

from surefoot.database.connection import Row
from surefoot.dlq.letters.masking import masked_headers, masked_payload, plain_headers, plain_payload
from surefoot.dlq.letters.views import (
    Counts,
    EventLine,
    EventView,
    Failure,
    Group,
    History,
    Revealed,
    SagaLink,
    View,
    Waiting,
)
from surefoot.events import Catalogue

V = TypeVar("V", bound=View)
Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class Found:
    """A letter's row, read."""

    line: EventLine
    row: Row
    headers: Headers
    value: bytes | None

    @classmethod
    def of(cls, row: Row) -> "Found":
        return cls(line_of(row), row, decoded_headers(row["headers"]), row["value"])


def as_view(kind: type[V], row: Row) -> V:
    return kind.model_validate({name: row[name] for name in kind.model_fields})


def line_of(row: Row) -> EventLine:
    return as_view(EventLine, row)


def group_of(row: Row) -> Group:
    counts = as_view(Counts, row)
    own = {name: row[name] for name in Group.model_fields if name not in ("counts", "total")}
    return Group(**own, counts=counts, total=sum(counts.model_dump().values()))


def event_view(
    found: Found,
    catalogue: Catalogue,
    *,
    saga: SagaLink | None,
    flow: list[EventLine],
    waiting: Waiting | None,
    history: History,
) -> EventView:
    row = found.row
    payload = masked_payload(found.value, found.headers, catalogue)
    return EventView(
        **found.line.model_dump(),
        recorded_at=row["recorded_at"],
        received_at=row["received_at"],
        payload_form=payload.form,
        payload=payload.value,
        value_bytes=None if found.value is None else len(found.value),
        headers=masked_headers(found.headers),
        headers_left_out=row["headers_left_out"],
        failures=[Failure(at=str(at), error=str(error)) for at, error in orjson.loads(row["failures"])],
        stack=row["stack"],
        saga=saga,
        flow=flow,
        waiting=waiting,
        history=history,
    )


def revealed(found: Found) -> Revealed:
    payload = plain_payload(found.value, found.headers)
    return Revealed(
        id=found.line.id,
        event_id=found.line.event_id,
        event_type=found.line.event_type,
        payload_form=payload.form,
        payload=payload.value,
        headers=plain_headers(found.headers),
        record_key_base64=_encoded(found.row["record_key"]),
        value_base64=_encoded(found.value),
        headers_base64=[(name, _encoded(value)) for name, value in found.headers],
    )


def decoded_headers(headers: str) -> Headers:
    return tuple((name, None if value is None else base64.b64decode(value)) for name, value in orjson.loads(headers))


def _encoded(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()
