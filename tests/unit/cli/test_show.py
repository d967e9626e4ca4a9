"""Tables of the terminal: ids stay whole, whatever the width; a pipe gets one line for each row."""

from io import StringIO

import pytest
from rich.console import Console

from surefoot.cli.show import Column, print_table

ID = "0192f0c1-7a3e-7c41-9d0a-6f1f0d6f3b11"
COLUMNS = [Column("id"), Column("open", is_number=True), Column("what is wrong", wraps=True)]
LONG = "There is no tariff for parcels to this country, and nobody has ever heard of one."


def printed(*rows: list[str], width: int, terminal: bool) -> str:
    file = StringIO()
    console = Console(file=file, width=width, force_terminal=terminal, color_system=None, soft_wrap=True, markup=False)
    print_table(COLUMNS, rows, console=console)
    return file.getvalue()


@pytest.mark.parametrize("width", [200, 100, 80, 60, 40, 20])
def test_an_id_is_whole_on_one_line_at_any_width(width: int) -> None:
    shown = printed([ID, "3", LONG], width=width, terminal=True)
    assert any(ID in line for line in shown.splitlines())
    assert "tariff" in shown


def test_where_there_is_room_it_is_a_table_with_a_head() -> None:
    lines = printed([ID, "3", LONG], width=100, terminal=True).splitlines()
    assert "id" in lines[0]
    assert "what is wrong" in lines[0]
    assert max(map(len, lines)) <= 100


def test_where_there_is_none_each_row_is_a_block_with_names() -> None:
    shown = printed([ID, "3", LONG], width=50, terminal=True)
    assert shown.splitlines()[0] == ID
    assert f"  what is wrong: {LONG}\n" in shown


def test_a_pipe_gets_one_line_for_each_row_however_long() -> None:
    lines = printed([ID, "3", LONG], [ID, "1,204", "short"], width=20, terminal=False).splitlines()
    assert len(lines) == 3
    assert lines[1] == f"{ID}      3  {LONG}"
    assert lines[2] == f"{ID}  1,204  short"


def test_what_others_wrote_neither_steers_the_terminal_nor_is_taken_for_markup() -> None:
    shown = printed([ID, "1", "\x1b[31m[bold]red[/bold]\nsecond line"], width=200, terminal=False)
    assert "\x1b" not in shown
    assert "[bold]red[/bold] second line" in shown
    assert len(shown.splitlines()) == 2
