"""The one statement that writes a transaction's events (see `outbox_write` in `surefoot.database.tables.outbox`)."""

from collections.abc import Sequence

from sqlalchemy import ARRAY, Connection, Integer, LargeBinary, TextClause, Text, Uuid, bindparam, text

from surefoot.outbox.entry import Entry

_COLUMNS = {
    "event_ids": Uuid,
    "hashes": Integer,
    "topics": Text,
    "types": Text,
    "keys": Text,
    "bodies": LargeBinary,
    "headers": Text,
}


def driver_statement(schema: str) -> str:
    """For asyncpg."""
    return f"SELECT {schema}.outbox_write($1, $2, $3, $4, $5, $6, $7)"


def session_statement(schema: str) -> TextClause:
    """For SQLAlchemy, whatever the driver."""
    names = ", ".join(f":{name}" for name in _COLUMNS)
    parameters = [bindparam(name, type_=ARRAY(column)) for name, column in _COLUMNS.items()]
    return text(f"SELECT {schema}.outbox_write({names})").bindparams(*parameters)


def columns(entries: Sequence[Entry]) -> list[list[object]]:
    """Rows turned into the arrays the function takes."""
    return [list(column) for column in zip(*entries, strict=True)]


def write(connection: Connection, statement: TextClause, entries: Sequence[Entry]) -> None:
    connection.execute(statement, dict(zip(_COLUMNS, columns(entries), strict=True)))
