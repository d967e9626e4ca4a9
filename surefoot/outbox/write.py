"""The statements that write a transaction's events, each in one round trip and as the last before the commit.

Both take the key locks first and draw the positions after that (see `surefoot.database.tables.outbox`). One event, the
usual case, is a plain insert: the same through the function takes the server three times as long. They go to the driver
as they are, because what SQLAlchemy does around a statement costs more than the insert itself.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import count

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from surefoot.database import locks
from surefoot.errors import ConfigurationError
from surefoot.outbox.entry import Entry

# The lock is in a subquery of its own, which has to give its row before the row to insert, with its position, is made.
_ONE = """
    INSERT INTO {schema}.outbox_events (event_id, shard, key_hash, topic, event_type, key, body, headers)
    SELECT ?::uuid, ?::int % s.shards, ?::int, ?::text, ?::text, ?::text, ?::bytea, ?::text::json
    FROM (SELECT pg_advisory_xact_lock({lock}, ?::int % {buckets}) OFFSET 0) AS locked,
         (SELECT shards, CASE WHEN asleep_until > now() THEN pg_notify('surefoot_outbox', '') END AS woken
          FROM {schema}.outbox_settings OFFSET 0) AS s"""
_MANY = """
    SELECT {schema}.outbox_write(?::uuid[], ?::int[], ?::text[], ?::text[], ?::text[], ?::bytea[], ?::text[])"""


def statement(
    schema: str, entries: Sequence[Entry], paramstyle: str = "numeric_dollar"
) -> tuple[str, tuple[object, ...]]:
    """SQL and parameters that write these entries, for asyncpg or for a driver with another style of parameters."""
    if len(entries) > 1:
        return _sql(_MANY, schema, paramstyle), tuple([list(column) for column in zip(*entries, strict=True)])
    ((event_id, hashed, topic, event_type, key, body, headers),) = entries
    values = (event_id, hashed, hashed, topic, event_type, key, body, headers, hashed)
    return _sql(_ONE, schema, paramstyle), values


def write(connection: Connection, schema: str, entries: Sequence[Entry]) -> None:
    """Write through a SQLAlchemy connection, in its transaction."""
    sql, values = statement(schema, entries, connection.dialect.paramstyle)
    cursor = connection.connection.cursor()
    try:
        cursor.execute(sql, values)
    except connection.dialect.loaded_dbapi.Error as error:
        # As SQLAlchemy itself would have raised it: users catch its IntegrityError, not the driver's.
        raise DBAPIError.instance(
            sql, None, error, connection.dialect.loaded_dbapi.Error, dialect=connection.dialect, hide_parameters=True
        ) from error
    finally:
        cursor.close()


@lru_cache
def _sql(template: str, schema: str, paramstyle: str) -> str:
    sql = template.format(schema=schema, lock=locks.OUTBOX_KEY, buckets=locks.OUTBOX_BUCKETS)
    if paramstyle == "numeric_dollar":
        numbers = count(1)
        return "".join(f"${next(numbers)}" if letter == "?" else letter for letter in sql)
    if paramstyle in ("format", "pyformat"):
        return sql.replace("%", "%%").replace("?", "%s")
    raise ConfigurationError(
        f"The outbox does not know how to use a driver with {paramstyle} parameters: use asyncpg or psycopg."
    )
