"""Dead letters as lines of a file: a table for a spreadsheet, or JSON. Masked, as everything that leaves. Pure.

A spreadsheet runs what begins like a formula, and what is in a dead letter is anybody's: such a cell is defused with an
apostrophe, which the spreadsheet takes for "this is text".
"""

import csv
import io
import json
from collections.abc import Iterable, Iterator
from typing import Literal

from dlq.letter_view import Found
from dlq.masking import masked_payload
from dlq.page_sql import LINE
from dlq.views import EventLine
from surefoot.events import Catalogue

Format = Literal["csv", "jsonl"]
COLUMNS = f"{LINE}, e.value, e.headers::text AS headers"
"""What of a row is needed."""
HEADINGS = (*EventLine.model_fields, "payload_form", "payload")
MEDIA_TYPE: dict[Format, str] = {"csv": "text/csv; charset=utf-8", "jsonl": "application/jsonl"}
# Also as a spreadsheet may see them: behind spaces, or in their full-width forms.
FORMULAS = tuple("=+-@\t\r\n=+-@|%")


def beginning(kind: Format) -> bytes:
    return _csv_line(HEADINGS) if kind == "csv" else b""


def lines(found: Iterable[Found], kind: Format, catalogue: Catalogue) -> Iterator[bytes]:
    for letter in found:
        payload = masked_payload(letter.value, letter.headers, catalogue)
        line = letter.line.model_dump(mode="json")
        if kind == "csv":
            text = "" if payload.form != "json" else json.dumps(payload.value, ensure_ascii=False)
            yield _csv_line([*line.values(), payload.form, text])
        else:
            whole = {**line, "payload_form": payload.form, "payload": payload.value}
            yield json.dumps(whole, ensure_ascii=True).encode() + b"\n"


def defused(cell: object) -> object:
    if isinstance(cell, str) and cell.lstrip(" \u00a0\ufeff").startswith(FORMULAS):
        return f"'{cell}"
    return cell


def _csv_line(cells: Iterable[object]) -> bytes:
    written = io.StringIO()
    csv.writer(written, lineterminator="\r\n").writerow([defused(cell) for cell in cells])
    return written.getvalue().encode(errors="replace")
