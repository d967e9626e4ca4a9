"""One record of the log as a line for the eye. Data that their declaration marks as personal are masked."""

import json
from typing import Any

from surefoot.consumer.dead_letter import DEAD_LETTER_TYPE
from surefoot.events import BadRecord, Catalogue, Envelope, decode
from surefoot.events.binding import version_of
from surefoot.events.masking import MASK, NotJson, declares_personal, masked
from surefoot.log.port import StoredRecord


def line_of(record: StoredRecord, catalogue: Catalogue | None) -> str:
    """One record for the eye, masked by the catalogue's declarations; without one, as it is. What is not a CloudEvent
    is shown all the same, with the reason."""
    where = f"{record.partition}/{record.offset}"
    try:
        envelope = decode(record.headers, record.value, record.key)
    except BadRecord as bad:
        return f"{where}  not an event ({bad.reason})  {record.value!r}"
    key = (record.key or b"").decode(errors="replace")
    return f"{where}  {envelope.type}  {key}  {_shown(record, envelope, catalogue)}"


def _shown(record: StoredRecord, envelope: Envelope, catalogue: Catalogue | None) -> str:
    data = envelope.data
    try:
        if catalogue is None or data is None:
            return json.dumps(json.loads(data or b"null"), ensure_ascii=False)
        return json.dumps(_masked(record, envelope, data, catalogue), ensure_ascii=False)
    except (ValueError, RecursionError):
        return repr(data)


def _masked(record: StoredRecord, envelope: Envelope, data: bytes, catalogue: Catalogue) -> Any:
    """A dead letter's data are those of the event that it is about."""
    if envelope.type == DEAD_LETTER_TYPE:
        about = dict(record.headers).get("surefoot-event-type") or b""
        kind, version = about.decode(errors="replace"), None
    else:
        kind, version = envelope.type, version_of(envelope)
    if not declares_personal(kind, catalogue):
        return json.loads(data)
    try:
        return masked(data, kind, version, catalogue)
    except NotJson:
        return MASK
