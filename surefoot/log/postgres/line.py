"""One connection of the Postgres log: opened when needed, opened again after a failure, used by one task at a time.

Every failure of the database comes out of it as LogUnavailable (or SchemaOutdated, if the tables are missing): for
whoever uses the log, a database that is down is a log that is down.

Records are read from given positions on by one statement, so of one snapshot.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta

from surefoot.database.connection import (
    Connection,
    Row,
    close_quietly,
    connect,
    explain,
    is_database_error,
    is_missing_table,
)
from surefoot.errors import DatabaseUnavailable, LeaseLost, LogUnavailable, SurefootError
from surefoot.log.port import Headers, StoredRecord, TopicPartition

READ_BYTES = 16 * 1024 * 1024
"""Most bytes of one read; one record is given whatever its size."""


class RecordsGone(SurefootError):
    """Records that a group has not read yet are past their topic's retention and were removed."""

    def __init__(self, where: TopicPartition, wanted: int, first: int) -> None:
        super().__init__(
            f"Offsets {wanted} to {first - 1} of {where.topic}/{where.partition} are gone: they were removed when the "
            f"topic's retention passed, and were not read before. Decide what their loss means, then seek to {first}; "
            "and give the topic a longer retention."
        )
        self.where = where
        self.wanted = wanted
        self.first = first


async def read_records(
    connection: Connection, statement: str, positions: Mapping[TopicPartition, int], max_records: int
) -> dict[TopicPartition, list[StoredRecord]]:
    """The next records, at most `max_records` and about READ_BYTES in all; partitions are served in the order they are
    given in."""
    topics, partitions = [one.topic for one in positions], [one.partition for one in positions]
    found: dict[TopicPartition, list[StoredRecord]] = {}
    for row in await connection.fetch(statement, topics, partitions, list(positions.values()), max_records):
        where = TopicPartition(row[0], row[1])
        if row[3] is None:
            raise RecordsGone(where, wanted=positions[where], first=row[2])
        found.setdefault(where, []).append(_stored(row))
    for records in found.values():
        records.sort(key=_offset)
    return found


def read_statement(schema: str) -> str:
    """$1 topics, $2 partitions, $3 their positions, $4 how many records.

    The first half finds positions that retention has passed: what was removed is told from what was never there. The
    second stops at the record that reaches READ_BYTES, in the order of the partitions' turns and of their offsets, so
    that nothing is left out in between."""
    wanted = "unnest($1::text[], $2::int[], $3::bigint[]) WITH ORDINALITY AS w(topic, partition, next, turn)"
    # Neither fetches what is stored out of line: large values are not read to be left out.
    size = "coalesce(octet_length(r.value), 0) + pg_column_size(r.header_values)"
    return f"""
        (SELECT w.topic, w.partition, p.first_offset, NULL::bigint, NULL::bigint, NULL::bytea, NULL::bytea,
                NULL::text[], NULL::bytea[]
         FROM {wanted} JOIN {schema}.log_partitions p USING (topic, partition) WHERE p.first_offset > w.next)
        UNION ALL
        (SELECT topic, partition, next, log_offset, (extract(epoch FROM stored_at) * 1000)::bigint,
                key, value, header_names, header_values
         FROM (SELECT r.*, sum({size}) OVER (ORDER BY turn, log_offset ROWS UNBOUNDED PRECEDING) - ({size}) AS before
               FROM (SELECT w.turn, w.next, r.*
                     FROM {wanted} CROSS JOIN LATERAL (
                         SELECT * FROM {schema}.log_records r
                         WHERE r.topic = w.topic AND r.partition = w.partition AND r.log_offset >= w.next
                         ORDER BY r.log_offset LIMIT $4::int) r
                     LIMIT $4::int) r) r
         WHERE before < {READ_BYTES})"""


def _stored(row: Row) -> StoredRecord:
    return StoredRecord(row[0], row[1], row[3], row[4], row[5], row[6], _headers(row[7], row[8]))


def _headers(names: Sequence[str], values: Sequence[bytes | None]) -> Headers:
    return tuple(zip(names, values, strict=True))


def _offset(record: StoredRecord) -> int:
    return record.offset


# A frozen process must not keep its locks: the server ends its transaction, and whoever waits for a lock outlasts that.
TRANSACTION_TIMEOUT = timedelta(seconds=5)
LOCK_TIMEOUT = timedelta(seconds=10)
ANSWER_TIMEOUT = timedelta(seconds=15)


class Line:
    def __init__(self, url: str, *, name: str, opened: Callable[[Connection], Awaitable[None]] | None = None) -> None:
        self._url = url
        self._name = name
        self._opened = opened
        self._connection: Connection | None = None
        self._turn = asyncio.Lock()
        self._closed = False

    @asynccontextmanager
    async def use(self) -> AsyncIterator[Connection]:
        async with self._turn:
            try:
                async with asyncio.timeout(ANSWER_TIMEOUT.total_seconds()):
                    yield await self._open()
            except (LeaseLost, RecordsGone):
                raise  # an answer, not a failure
            except BaseException as error:
                # Nobody knows what the connection is in the middle of: the next use gets a new one.
                self._drop()
                if isinstance(error, Exception) and is_database_error(error):
                    raise log_unavailable(error, self._url) from error
                raise

    async def close(self) -> None:
        self._closed = True
        async with self._turn:
            connection, self._connection = self._connection, None
            if connection is not None:
                await close_quietly(connection)

    async def _open(self) -> Connection:
        if self._closed:
            raise LogUnavailable("This part of the event log was closed; open another one.")
        if self._connection is None or self._connection.is_closed():
            self._connection = await connect(
                self._url,
                name=self._name,
                lock_timeout=LOCK_TIMEOUT,
                transaction_timeout=TRANSACTION_TIMEOUT,
            )
            if self._opened is not None:
                await self._opened(self._connection)
        return self._connection

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()


def log_unavailable(error: BaseException, url: str) -> Exception:
    explained = error if isinstance(error, DatabaseUnavailable) else explain(error, url)
    if is_missing_table(error):
        return explained
    return LogUnavailable(f"The event log cannot be used, because it lies in the database. {explained}")
