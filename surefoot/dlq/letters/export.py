"""Dead letters as lines of a file: a table for a spreadsheet, or JSON. Masked, as everything that leaves. Pure.

A spreadsheet runs what begins like a formula, and what is in a dead letter is anybody's: such a cell is defused with an
apostrophe, which the spreadsheet takes for "this is text".
"""

import csv
import io
from collections.abc import Iterable, Iterator
from typing import Any, Literal, assert_never

import orjson

from surefoot.database.connection import Row
from surefoot.dlq.letters.looking import decoded_headers, line_of
from surefoot.dlq.letters.masking import masked_payload
from surefoot.dlq.letters.pages import LINE
from surefoot.dlq.letters.views import EventLine
from surefoot.events import Catalogue

Format = Literal["csv", "jsonl"]
MEDIA_TYPE: dict[Format, str] = {"csv": "text/csv; charset=utf-8", "jsonl": "application/jsonl"}
MAX_VALUE_BYTES = 65_536
"""Of a larger record the data are left out, and payload_form says too_large: a page of letters must fit in memory."""
COLUMNS = f"""{LINE}, e.headers::text AS headers, octet_length(e.value) AS value_bytes,
    CASE WHEN octet_length(e.value) <= {MAX_VALUE_BYTES} THEN e.value END AS value"""
"""What of a row of dlq_events is needed."""
HEADINGS = (*EventLine.model_fields, "payload_form", "payload")

# What begins a formula, in full width too, and what a spreadsheet passes over to find one.
_FORMULA = ("=", "+", "-", "@", "|", "%", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
_PASSED_OVER = " \u00a0\ufeff"


def beginning(form: Format) -> bytes:
    return _csv_line(HEADINGS) if form == "csv" else b""


def lines(rows: Iterable[Row], form: Format, catalogue: Catalogue) -> Iterator[bytes]:
    for row in rows:
        letter = _told(row, catalogue)
        match form:
            case "csv":
                text = "" if letter["payload"] is None else orjson.dumps(letter["payload"]).decode()
                yield _csv_line([*(letter[name] for name in HEADINGS[:-1]), text])
            case "jsonl":
                yield orjson.dumps(letter) + b"\n"
            case _:
                assert_never(form)


def defused(cell: object) -> object:
    if isinstance(cell, str) and cell.lstrip(_PASSED_OVER).startswith(_FORMULA):
        return f"'{cell}"
    return cell


def _told(row: Row, catalogue: Catalogue) -> dict[str, Any]:
    told = line_of(row).model_dump(mode="json")
    if row["value"] is None and row["value_bytes"] is not None:
        return {**told, "payload_form": "too_large", "payload": None}
    payload = masked_payload(row["value"], decoded_headers(row["headers"]), catalogue)
    return {**told, "payload_form": payload.form, "payload": payload.value}


def _csv_line(cells: Iterable[object]) -> bytes:
    written = io.StringIO(newline="")
    csv.writer(written, quoting=csv.QUOTE_ALL).writerow([defused(cell) for cell in cells])
    return written.getvalue().encode()
