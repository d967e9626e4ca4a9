"""The one statement that writes a transaction's events (see `outbox_write` in `surefoot.database.tables.outbox`).

It goes to the driver as it is: what SQLAlchemy does around a statement costs more than the insert itself.
"""

from collections.abc import Sequence
from functools import lru_cache

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from surefoot.errors import ConfigurationError
from surefoot.outbox.entry import Entry

_TYPES = ("uuid[]", "int[]", "text[]", "text[]", "text[]", "bytea[]", "text[]")
_PLACEHOLDERS = {
    "numeric_dollar": [f"${number}" for number in range(1, len(_TYPES) + 1)],
    "format": ["%s"] * len(_TYPES),
    "pyformat": ["%s"] * len(_TYPES),
}


@lru_cache
def statement(schema: str, paramstyle: str = "numeric_dollar") -> str:
    """For asyncpg, or for whatever style of parameters a SQLAlchemy driver has."""
    placeholders = _PLACEHOLDERS.get(paramstyle)
    if placeholders is None:
        raise ConfigurationError(f"The outbox does not know how to use a driver with {paramstyle} parameters: use asyncpg or psycopg.")
    casts = ", ".join(f"{place}::{type_}" for place, type_ in zip(placeholders, _TYPES, strict=True))
    return f"SELECT {schema}.outbox_write({casts})"


def columns(entries: Sequence[Entry]) -> tuple[list[object], ...]:
    """Rows turned into the arrays the function takes."""
    return tuple([list(column) for column in zip(*entries, strict=True)])


def write(connection: Connection, schema: str, entries: Sequence[Entry]) -> None:
    sql = statement(schema, connection.dialect.paramstyle)
    cursor = connection.connection.cursor()
    try:
        cursor.execute(sql, columns(entries))
    except connection.dialect.loaded_dbapi.Error as error:
        # As SQLAlchemy itself would have raised it: users catch its IntegrityError, not the driver's.
        raise DBAPIError.instance(
            sql, None, error, connection.dialect.loaded_dbapi.Error, dialect=connection.dialect, hide_parameters=True
        ) from error
    finally:
        cursor.close()
