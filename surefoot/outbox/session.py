"""Events added to a SQLAlchemy session: buffered, and written just before the commit.

Each buffered event belongs to the (nested) transaction it was added in. When a savepoint is rolled back its events go
with it, however it ends. What is left is written when the outermost transaction commits: before the commit begins, and
for events that hooks of the user's add while it is under way, as its very last statement. An event that comes too late
for that is an error, never a silence.

The first event of a session makes us listen to it, and to the connections that it uses then and later. SQLAlchemy calls
us after the user's own hooks. A hook that raises keeps the end of a transaction from us, so we look again before we
write.

The statements that write take the key locks first and draw the positions after that (see
`surefoot.database.tables.outbox`), each in one round trip and as the last before the commit. One event, the usual case,
is a plain insert: the same through the function takes the server three times as long. They go to the driver as they
are, because what SQLAlchemy does around a statement costs more than the insert itself.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import count
from typing import NamedTuple

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError, UnboundExecutionError
from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session
from sqlalchemy.orm import Session, SessionTransaction, scoped_session

from surefoot.database import locks
from surefoot.errors import ConfigurationError
from surefoot.outbox.entry import Entry
from surefoot.outbox.listening import CONNECTIONS, SESSIONS, listen_to_connection, listen_to_session

AnySession = AsyncSession | Session | scoped_session[Session] | async_scoped_session[AsyncSession]
_KEY = "surefoot.outbox"
_SAVEPOINT = re.compile(
    r"SAVEPOINT\s+(?P<made>\S+?)\s*;?\s*$|ROLLBACK\s+(?:WORK\s+|TRANSACTION\s+)?TO\s+(?:SAVEPOINT\s+)?(?P<undone>\S+?)\s*;?\s*$",
    re.IGNORECASE,
)
_SAVEPOINT_LETTERS = frozenset("SsRr")
_numbers = count()


class _Buffered(NamedTuple):
    number: int
    transaction: SessionTransaction
    schema: str
    entry: Entry


@dataclass(slots=True)
class _Buffer:
    """What a session has in hand."""

    events: list[_Buffered] = field(default_factory=list)
    released: set[SessionTransaction] = field(default_factory=set)
    """Savepoints that were committed: their events belong to what is around them now."""

    def drop(self, undone: SessionTransaction) -> None:
        self.events = [buffered for buffered in self.events if not _is_within(buffered.transaction, undone)]

    def stands(self, buffered: _Buffered, session: Session) -> bool:
        """Whether everything that the event was added in is still open, or was released into what is."""
        innermost = session.get_nested_transaction() or session.get_transaction()
        transaction: SessionTransaction | None = buffered.transaction
        while transaction is not None and not _is_within(innermost, transaction):
            if transaction.nested and transaction not in self.released:
                return False
            transaction = transaction.parent
        return transaction is not None

    def drop_since(self, number: int) -> None:
        self.events = [buffered for buffered in self.events if buffered.number < number]


def buffer(session: AnySession, entry: Entry, schema: str) -> None:
    """Keep an entry until the session's transaction commits."""
    sync = _sync(session)
    transaction = sync.get_nested_transaction() or sync.get_transaction() or sync.begin()  # as session.add() would
    if not transaction.is_active:
        raise ConfigurationError(
            "The event was added when its transaction had been committed or rolled back (in an after_commit hook, "
            "perhaps), so it cannot be part of it. Add it before the commit."
        )
    if sync.twophase:
        raise ConfigurationError("Events cannot be added to a session with two-phase commits. Use an ordinary session.")
    if listen_to_session(sync):
        for connection in _connections(sync):
            _follow(connection, sync)
    in_hand: _Buffer | None = sync.info.get(_KEY)
    if in_hand is None:
        in_hand = sync.info[_KEY] = _Buffer()
    in_hand.events.append(_Buffered(next(_numbers), transaction, schema, entry))


def take(session: AnySession) -> list[Entry]:
    """What the session has in hand, for a caller who writes it with statements of his own before he commits."""
    return [buffered.entry for buffered in _taken(_sync(session))]


def forget(session: AnySession) -> None:
    """Let go of a session whose transaction is over, however it ended: one that broke tells nobody that it did."""
    sync = _sync(session)
    sync.info.pop(_KEY, None)
    for connection in _connections(sync):
        _followed(connection).pop(sync, None)


@SESSIONS.on("after_begin")
def _follow_what_it_began(session: Session, _: SessionTransaction, connection: Connection) -> None:
    _follow(connection, session)


@SESSIONS.on("before_commit")
def _write_before_commit(session: Session) -> None:
    in_hand: _Buffer | None = session.info.get(_KEY)
    if in_hand is None:
        return
    connection = _connection(session)  # a session that did nothing else has none yet, and would commit nothing
    savepoint = session.get_nested_transaction()
    if savepoint is not None:
        # Either this savepoint is being released, or the whole transaction with the savepoint still open. In the
        # second case what it holds is written by the hook below.
        in_hand.released.add(savepoint)
        return
    # The user's own rows first: taking the key locks before row locks, while others take them after, would deadlock.
    session.flush()
    _write(session, connection)


@CONNECTIONS.on("commit")
def _write_what_came_late(connection: Connection) -> None:
    for session in tuple(_followed(connection)):
        _write(session, connection)


@SESSIONS.on("after_commit")
def _refuse_what_was_left(session: Session) -> None:
    in_hand: _Buffer | None = session.info.get(_KEY)
    if in_hand is None:
        return
    savepoint = session.get_nested_transaction()
    if savepoint is not None:
        in_hand.released.add(savepoint)  # the session's first event may have come too late for the hook above
    elif events := _taken(session):
        raise ConfigurationError(
            f"{len(events)} event(s) were added while the transaction was being committed and could not be "
            "part of it: the transaction is committed, the events are not published. Add them before the commit."
        )


@SESSIONS.on("after_soft_rollback")
def _forget_what_was_rolled_back(session: Session, undone: SessionTransaction) -> None:
    in_hand: _Buffer | None = session.info.get(_KEY)
    if in_hand is not None:
        in_hand.drop(undone)


@CONNECTIONS.on("before_cursor_execute")
def _follow_savepoints(connection: Connection, _cursor: object, statement: str, *_: object) -> None:
    """A savepoint of the connection's, or in SQL, of which its session knows nothing."""
    if statement[:1] not in _SAVEPOINT_LETTERS:
        return
    found = _SAVEPOINT.match(statement)
    if found is None:
        return
    name = (found["made"] or found["undone"]).strip('"').lower()
    for session, savepoints in _followed(connection).items():
        if found["made"]:
            savepoints[name] = next(_numbers)
        elif (in_hand := session.info.get(_KEY)) is not None:
            in_hand.drop_since(savepoints.get(name, 0))  # one that is not known was there first


@SESSIONS.on("after_transaction_end")
def _forget_what_was_closed(session: Session, ended: SessionTransaction) -> None:
    """Closing a transaction without committing it rolls it back, but tells nobody that it did."""
    if ended.parent is None:
        # A hook of the user's may have begun the next transaction on the same connection.
        for connection in _used_by(ended) - _connections(session):
            _followed(connection).pop(session, None)
    elif not ended.nested:
        return  # a flush is over, and undoes nothing by itself
    in_hand: _Buffer | None = session.info.get(_KEY)
    if in_hand is not None and ended not in in_hand.released:
        in_hand.drop(ended)


def _follow(connection: Connection, session: Session) -> None:
    listen_to_connection(connection)
    vars(connection).setdefault(_KEY, {}).setdefault(session, {})


def _followed(connection: Connection) -> dict[Session, dict[str, int]]:
    """The sessions whose transactions use the connection; of each, the savepoints in SQL, and when they were made.

    The connection holds this. A table of ours would keep a session that is never closed, and its connection, for ever.
    """
    followed: dict[Session, dict[str, int]] = vars(connection).get(_KEY, {})
    return followed


def _connections(session: Session) -> frozenset[Connection]:
    transaction = session.get_transaction()
    return frozenset() if transaction is None else _used_by(transaction)


def _used_by(transaction: SessionTransaction) -> frozenset[Connection]:
    """Of an outermost transaction. SQLAlchemy has a public name for it only since 2.1.7."""
    return frozenset(found[0] for found in transaction._connections.values())


def _taken(session: Session) -> list[_Buffered]:
    """What the session has in hand, but nothing of a transaction that ended without our knowledge."""
    in_hand: _Buffer | None = session.info.pop(_KEY, None)
    return [] if in_hand is None else [buffered for buffered in in_hand.events if in_hand.stands(buffered, session)]


def _write(session: Session, connection: Connection) -> None:
    events = _taken(session)
    if not events:
        return
    _refuse_autocommit(connection)
    if len(_connections(session)) > 1:
        raise ConfigurationError(
            "The session's transaction spans several databases, and the event could be committed without the change it "
            "tells of. Use a session with one database for work that publishes events."
        )
    schemas = {buffered.schema for buffered in events}
    if len(schemas) > 1:
        raise ConfigurationError(
            f"One transaction has events for the outboxes in {' and '.join(sorted(schemas))}. Use one of them: two "
            "transactions that lock the keys of both would wait for each other."
        )
    write(connection, schemas.pop(), [buffered.entry for buffered in events])


def _sync(session: AnySession) -> Session:
    if isinstance(session, scoped_session | async_scoped_session):
        session = session()
    return session.sync_session if isinstance(session, AsyncSession) else session


def _connection(session: Session) -> Connection:
    try:
        return session.connection()
    except UnboundExecutionError:
        raise ConfigurationError(
            "The session has no database for the outbox: it is bound by model or table only. Give it a default with "
            "bind=…, the database that has Surefoot's tables."
        ) from None


def _refuse_autocommit(connection: Connection) -> None:
    level = connection.get_execution_options().get("isolation_level")
    if level is None:  # set on the engine: SQLAlchemy keeps it where only it looks
        level = getattr(connection.dialect, "_on_connect_isolation_level", None)
    if level == "AUTOCOMMIT":
        raise ConfigurationError(
            "The session's connection is in AUTOCOMMIT: there is no transaction for the event to be part of. "
            "Use a session with ordinary transactions for work that publishes events."
        )


def _is_within(transaction: SessionTransaction | None, outer: SessionTransaction) -> bool:
    while transaction is not None:
        if transaction is outer:
            return True
        transaction = transaction.parent
    return False


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
