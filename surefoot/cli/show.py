"""What commands print: tables and sentences for people, JSON for programs.

A table is drawn where there is room for one, else as a block for each row; a pipe gets whole lines. Ids are never cut
or broken, so that they can be copied. What others wrote is shown as text, whatever is in it.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console

if TYPE_CHECKING:
    from rich.table import Table

# Soft-wrapped and without markup: ids can be copied whole, and a key with brackets in it is shown as it is.
console = Console(highlight=False, soft_wrap=True, markup=False)
styled = Console(highlight=False, soft_wrap=True)
"""For our own sentences with marks and colours in them."""
aside = Console(stderr=True, highlight=False, soft_wrap=True, markup=False)
"""For what is said beside the output: progress, and sentences to the person at the terminal."""
MOST_SHOWN = 20_000
_MOST_IN_A_LINE = 2_000
_LEAST_TEXT = 24
"""A column of text narrower than this cannot be read."""
_BETWEEN = 2


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    wraps: bool = False
    """Text that may take several lines. All others are shown whole."""
    is_number: bool = False


def print_table(columns: Sequence[Column], rows: Sequence[Sequence[str]], *, console: Console = console) -> None:
    cleaned = [[one_line(cell) for cell in row] for row in rows]
    if not console.is_terminal:
        numbers = [at for at, column in enumerate(columns) if column.is_number]
        for line in aligned([[column.name for column in columns], *cleaned], numbers):
            console.print(line)
    elif _needed(columns, cleaned) <= console.width:
        console.print(_table(columns, cleaned), soft_wrap=False)
    else:
        _print_blocks(columns, cleaned, console)


def aligned(rows: Sequence[Sequence[str]], numbers: Sequence[int] = ()) -> Iterator[str]:
    """A line for each row, its cells under those of the row before. Columns without any text are left out."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [
            cell.rjust(width) if at in numbers else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
            if width
        ]
        yield "  ".join(cells).rstrip()


def print_json(what: Any) -> None:
    """For programs: no colours, no wrapping, times in ISO 8601."""
    typer.echo(json.dumps(what, indent=2, default=_plain))


def say_if_cut(shown: int, limit: int) -> None:
    if shown == limit:
        console.print(f"There may be more: these are the first {limit} (see --limit).")


def clean(text: str, limit: int = MOST_SHOWN) -> str:
    """Without what would steer the reader's terminal."""
    from surefoot.events.text import printable

    return printable(text, limit)


def one_line(text: str) -> str:
    """The same, on one line."""
    return " ".join(clean(text, _MOST_IN_A_LINE).split())


def shown_time(time: datetime | None) -> str:
    return "never" if time is None else f"{time.astimezone(UTC):%Y-%m-%d %H:%M:%SZ}"


def short_time(time: datetime) -> str:
    return f"{time.astimezone(UTC):%m-%d %H:%MZ}"


def duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 120 * 60 else f"{seconds / 3600:.0f} h"


def counted(count: int, limit: int) -> str:
    """A number of things that were counted up to a limit."""
    return f"{limit} or more" if count >= limit else str(count)


def _plain(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def _needed(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> int:
    widths = [max(len(column.name), *(len(row[at]) for row in rows), 0) for at, column in enumerate(columns)]
    least = [min(w, _LEAST_TEXT) if column.wraps else w for column, w in zip(columns, widths, strict=True)]
    return sum(least) + _BETWEEN * len(columns)


def _table(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> "Table":
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold", show_edge=False)
    for column in columns:
        table.add_column(
            column.name,
            justify="right" if column.is_number else "left",
            no_wrap=not column.wraps,
            overflow="fold",
            min_width=None if column.wraps else len(column.name),
        )
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def _print_blocks(columns: Sequence[Column], rows: Sequence[Sequence[str]], console: Console) -> None:
    for row in rows:
        console.print(row[0], style="bold")
        for column, cell in zip(columns[1:], row[1:], strict=True):
            if cell:
                console.print(f"  {column.name}: {cell}")
