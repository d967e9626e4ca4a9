"""`surefoot audit …`: whether the record of what people did is whole.

It reads, and writes nothing: an auditor needs a user who may select from the one table. Exit codes: 0 whole, 1 somebody
was at it, 2 it could not be done.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TextIO

import typer

from surefoot.cli.command import Database, Schema, head_of, operate
from surefoot.cli.show import aside, styled
from surefoot.database.schema import DEFAULT_SCHEMA, checked_schema
from surefoot.errors import ConfigurationError

if TYPE_CHECKING:
    from surefoot.audit.record import Examined
    from surefoot.database.connection import Connection

app = typer.Typer(no_args_is_help=True, help="Check and export the record of what people did.")
NAME = "surefoot audit"


@app.command()
def verify(
    head: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBER:SEAL",
            help="A head that `surefoot audit head` printed earlier, and that was kept where the database's owner "
            "cannot write. Without it, rows cut off at the end cannot be missed.",
            show_default=False,
        ),
    ] = None,
    database: Database = None,
    schema: Schema = DEFAULT_SCHEMA,
) -> None:
    """Look through the whole audit log: was a row changed, removed, inserted or swapped? Exit code 1 if one was."""
    from surefoot.audit import record as audit

    form = "`surefoot audit head` printed it: the row's number, a colon, and its seal"
    wanted = None if head is None else head_of(head, form)
    checked_schema(schema)

    async def work(connection: "Connection") -> "Examined":
        with _progress("rows looked at", await _rows(connection, schema)) as progress:
            return await audit.examine(connection, schema, head=wanted, progress=progress)

    examined = operate(work, database, name=NAME)
    for finding in examined.findings:
        styled.print(f"[red]✗[/] {finding.sentence}")
    if examined.findings:
        raise typer.Exit(1)
    if examined.last is None:
        styled.print("The audit log is empty: nothing was recorded yet.")
        return
    number, seal = examined.last
    styled.print(f"[green]✓[/] The audit log is whole: {examined.rows} rows, each sealed with the one before it.")
    styled.print(f"Its head: {number}:{seal}")
    if head is None:
        styled.print("Whether rows were cut off at its end shows with a head that was written down earlier: --head.")


@app.command("head")
def head_(database: Database = None, schema: Schema = DEFAULT_SCHEMA) -> None:
    """Print the last row's number and seal, to be kept elsewhere: `audit verify --head` misses nothing before it."""
    from surefoot.audit import record as audit

    checked_schema(schema)

    async def work(connection: "Connection") -> tuple[int, str] | None:
        return await audit.head(connection, schema)

    found = operate(work, database, name=NAME)
    if found is None:
        raise ConfigurationError("The audit log is empty: it has no head yet.")
    styled.print(f"{found[0]}:{found[1]}")


@app.command()
def export(
    format_: Annotated[
        Literal["jsonl"], typer.Option("--format", help="How rows are written: one JSON object a line.")
    ] = "jsonl",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The file to write; it must not exist.", show_default="stdout")
    ] = None,
    after: Annotated[
        int, typer.Option(min=0, max=2**63 - 1, help="Only rows after this number, of an earlier export.")
    ] = 0,
    database: Database = None,
    schema: Schema = DEFAULT_SCHEMA,
) -> None:
    """Write the audit log down, row by row, with the seals: what was sealed can be checked from the file alone."""
    from surefoot.audit import record as audit

    checked_schema(schema)

    async def work(connection: "Connection") -> int:
        count = 0
        with _opened(output) as file, _progress("rows", max(0, await _rows(connection, schema) - after)) as progress:
            async for page in audit.pages(connection, schema, after=after or None):
                file.writelines(json.dumps(row.shown(), ensure_ascii=False) + "\n" for row in page)
                count += len(page)
                progress(len(page))
        return count

    count = operate(work, database, name=NAME)
    aside.print(f"{count} rows as {format_}.")


async def _rows(connection: "Connection", schema: str) -> int:
    """How many there should be: numbers have no gaps, and counting millions would take as long as reading them."""
    return int(await connection.fetchval(f"SELECT coalesce(max(number), 0) FROM {schema}.audit_log"))


@contextmanager
def _progress(what: str, total: int) -> Iterator[Callable[[int], None]]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=aside, transient=True) as progress:
        task = progress.add_task(what, total=total)
        yield lambda count: progress.advance(task, count)


@contextmanager
def _opened(output: Path | None) -> Iterator[TextIO]:
    if output is None:
        yield typer.get_text_stream("stdout", encoding="utf-8")
        return
    try:
        with output.open("x", encoding="utf-8") as file:
            yield file
    except OSError as error:
        raise ConfigurationError(f"{output} cannot be written: {error.strerror}. Say another --output.") from None
