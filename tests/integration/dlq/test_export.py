"""Dead letters as a file: masked, whole, and harmless to whoever opens it."""

import csv
import io
import json
from typing import Any, cast

import asyncpg

from schemas import catalogue
from surefoot.database.connection import Connection
from surefoot.dlq.letters import pages as page_sql
from surefoot.dlq.letters.export import COLUMNS, HEADINGS, MAX_VALUE_BYTES, Format, beginning, defused, lines
from surefoot.dlq.letters.filters import Filter
from tests.support.dlq.letter_rows import headers, insert, letter

ORDER = b'{"order_id": "o-1", "ship_to": {"name": "Ada", "country": "GB"}}'
HEADERS = headers(
    {"ce_specversion": "1.0", "ce_id": "e", "ce_source": "/orders", "ce_type": "order.create", "x-buyer": "Ada"}
)


async def exported(connection: asyncpg.Connection, form: Format, wanted: Filter | None = None) -> str:
    statement, values = page_sql.events("surefoot", wanted or Filter(), None, 100, COLUMNS)
    rows = await cast(Connection, connection).fetch(statement, *values)
    return (beginning(form) + b"".join(lines(rows, form, catalogue))).decode()


async def table(connection: asyncpg.Connection) -> list[dict[str, str]]:
    text = await exported(connection, "csv")
    return list(csv.DictReader(io.StringIO(text, newline="")))


async def keep(connection: asyncpg.Connection, *letters: dict[str, Any]) -> None:
    for number, changed in enumerate(letters):
        await insert(cast(Connection, connection), [letter(number, **changed)])


async def test_both_forms_have_the_same_letters_newest_first(connection: asyncpg.Connection) -> None:
    await keep(connection, {}, {}, {"consumer": "shipping"})
    assert [row["log_offset"] for row in await table(connection)] == ["2", "1", "0"]
    told = [json.loads(line) for line in (await exported(connection, "jsonl")).splitlines()]
    assert [row["log_offset"] for row in told] == [2, 1, 0]
    only = await exported(connection, "jsonl", Filter(consumer="shipping"))
    assert [json.loads(line)["log_offset"] for line in only.splitlines()] == [2]


async def test_personal_data_are_masked_and_headers_are_left_out(connection: asyncpg.Connection) -> None:
    await keep(connection, {"value": ORDER, "headers": HEADERS})
    text = await exported(connection, "jsonl")
    assert json.loads(text)["payload"] == {"order_id": "o-1", "ship_to": {"name": "•••", "country": "GB"}}
    assert "Ada" not in text
    assert "Ada" not in await exported(connection, "csv")
    assert json.loads((await table(connection))[0]["payload"]) == json.loads(text)["payload"]


FORMULAS = [
    '=HYPERLINK("http://x","y")',
    "+1",
    "-1",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    "\n=1",
    " =1",
    "\ufeff=1",
    "\uff1d1",
    "|x",
    "%x",
]


async def test_what_a_spreadsheet_would_compute_is_defused(connection: asyncpg.Connection) -> None:
    await keep(connection, *({"error": text, "key": text, "resolution": text} for text in FORMULAS))
    oldest_first = reversed(await table(connection))
    assert [(row["error"], row["key"], row["resolution"]) for row in oldest_first] == [
        (f"'{text}", f"'{text}", f"'{text}") for text in FORMULAS
    ]


HARMLESS = ["order-1", "a=b", '"', "a\nb", "1,2;3", "", "'=1", "é"]


async def test_what_is_harmless_comes_back_as_it_was(connection: asyncpg.Connection) -> None:
    await keep(connection, *({"key": text} for text in HARMLESS))
    assert [row["key"] for row in reversed(await table(connection))] == HARMLESS
    lines = (await exported(connection, "jsonl")).splitlines()
    assert [json.loads(line)["key"] for line in reversed(lines)] == HARMLESS


def test_numbers_are_no_formulas() -> None:
    assert defused(-1) == -1
    assert defused(None) is None


async def test_what_cannot_be_shown_says_why(connection: asyncpg.Connection) -> None:
    large = b'"' + b"x" * MAX_VALUE_BYTES + b'"'
    await keep(connection, {"value": None}, {"value": b"\xff"}, {"value": large}, {"value": b"{}"})
    assert [(row["payload_form"], row["payload"]) for row in await table(connection)] == [
        ("json", "{}"),
        ("too_large", ""),
        ("other", ""),
        ("none", ""),
    ]


async def test_every_line_of_the_table_has_every_column(connection: asyncpg.Connection) -> None:
    await keep(connection, {}, {"error": 'He said "no",\nand left.'})
    rows = list(csv.reader(io.StringIO(await exported(connection, "csv"), newline="")))
    assert tuple(rows[0]) == HEADINGS
    assert [len(row) for row in rows] == [len(HEADINGS)] * 3
    assert rows[1][HEADINGS.index("error")] == 'He said "no",\nand left.'
