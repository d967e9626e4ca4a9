"""Dead letters as a file: CSV or JSON lines, masked, page by page, so that a million of them need no memory.

Whoever opens a CSV file opens it in a spreadsheet, and what strangers put into an event must not be run there: a text
that a spreadsheet would take for a formula gets an apostrophe before it.
"""

import csv
import io
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, Literal, assert_never
from uuid import UUID

import orjson

from dlq.filters import Filter
from dlq.letter_view import decoded_headers, line_of
from dlq.masking import masked_payload
from dlq.page_sql import LINE, events
from dlq.views import EventLine
from surefoot.database.connection import Connection, Row
from surefoot.database.schema import checked_schema
from surefoot.events import Catalogue

ExportFormat = Literal["csv", "jsonl"]
MEDIA_TYPES: dict[ExportFormat, str] = {"csv": "text/csv; charset=utf-8", "jsonl": "application/jsonl; charset=utf-8"}
PAGE = 200
MAX_VALUE_BYTES = 65_536
"""Of a larger record the data are left out: payload_form says too_large."""
COLUMNS = (*EventLine.model_fields, "payload_form", "payload")

_TOLD = f"""{LINE}, e.headers::text AS headers, octet_length(e.value) AS value_bytes,
    CASE WHEN octet_length(e.value) <= {MAX_VALUE_BYTES} THEN e.value END AS value"""
# What a spreadsheet takes for the beginning of a formula; in full width too, and after a tab or the end of a line.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


async def export(
    connection: Connection, schema: str, wanted: Filter, catalogue: Catalogue, form: ExportFormat
) -> AsyncIterator[bytes]:
    """The parts of the file. In a transaction of REPEATABLE READ it is as the queue was at one moment."""
    schema = checked_schema(schema)
    if form == "csv":
        yield _csv([COLUMNS])
    after: tuple[datetime, UUID] | UUID | None = None
    while True:
        statement, values = events(schema, wanted, after, PAGE, _TOLD)
        rows = await connection.fetch(statement, *values)
        if rows:
            yield _written([_told(row, catalogue) for row in rows], form)
        if len(rows) < PAGE:
            return
        last = rows[-1]
        after = (last["failed_at"], last["id"]) if wanted.is_of_a_time else last["id"]


def _written(letters: Sequence[dict[str, Any]], form: ExportFormat) -> bytes:
    match form:
        case "csv":
            return _csv(_cells(letter) for letter in letters)
        case "jsonl":
            return b"".join(orjson.dumps(letter) + b"\n" for letter in letters)
        case _:
            assert_never(form)


def _told(row: Row, catalogue: Catalogue) -> dict[str, Any]:
    told = line_of(row).model_dump(mode="json")
    if row["value"] is None and row["value_bytes"] is not None:
        return {**told, "payload_form": "too_large", "payload": None}
    payload = masked_payload(row["value"], decoded_headers(row["headers"]), catalogue)
    return {**told, "payload_form": payload.form, "payload": payload.value}


def _cells(letter: dict[str, Any]) -> Iterator[object]:
    for name in COLUMNS:
        value = letter[name]
        if name == "payload":
            yield "" if letter["payload_form"] != "json" else defused(orjson.dumps(value).decode())
        else:
            yield defused(value) if isinstance(value, str) else value


def defused(text: str) -> str:
    """The text as a cell that no spreadsheet computes."""
    return f"'{text}" if text.startswith(_FORMULA) else text


def _csv(rows: Iterable[Iterable[object]]) -> bytes:
    file = io.StringIO(newline="")
    csv.writer(file, quoting=csv.QUOTE_ALL).writerows(rows)
    return file.getvalue().encode()
