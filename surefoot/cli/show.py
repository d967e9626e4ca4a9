"""Rows for an operator: a table where there is room for one, else a block for each row; whole lines in a pipe.

Ids are never cut or broken, so that they can be copied. What others wrote is shown as text, whatever is in it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from surefoot.events.text import printable

# Soft-wrapped and without markup: ids can be copied whole, and a key with brackets in it is shown as it is.
console = Console(highlight=False, soft_wrap=True, markup=False)
_MOST_SHOWN = 2_000
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
    cleaned = [[clean(cell) for cell in row] for row in rows]
    if not console.is_terminal:
        _print_lines(columns, cleaned, console)
    elif _needed(columns, cleaned) <= console.width:
        console.print(_table(columns, cleaned), soft_wrap=False)
    else:
        _print_blocks(columns, cleaned, console)


def clean(text: str) -> str:
    """Without what would steer the reader's terminal, on one line."""
    return " ".join(printable(text, _MOST_SHOWN).split())


def _needed(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> int:
    widths = [max(len(column.name), *(len(row[at]) for row in rows), 0) for at, column in enumerate(columns)]
    least = [min(w, _LEAST_TEXT) if column.wraps else w for column, w in zip(columns, widths, strict=True)]
    return sum(least) + _BETWEEN * len(columns)


def _table(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> Table:
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


def _print_lines(columns: Sequence[Column], rows: Sequence[Sequence[str]], console: Console) -> None:
    everything = [[column.name for column in columns], *rows]
    widths = [max(len(row[at]) for row in everything) for at in range(len(columns))]
    for row in everything:
        cells = [
            cell.rjust(width) if column.is_number else cell.ljust(width)
            for column, cell, width in zip(columns, row, widths, strict=True)
        ]
        console.print("  ".join(cells).rstrip())
