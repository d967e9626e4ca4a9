"""What a person decides about a saga, carried out in the database as the runtime carries out everything else.

One transaction: the saga is locked, the engine decides, and the history, the timers and the commands are written
together. A decision that is made twice is recorded once: the second time is refused with a sentence.
"""

from dataclasses import dataclass, replace
from datetime import UTC, datetime

from surefoot.database.connection import Connection, is_database_error
from surefoot.errors import ConfigurationError, SurefootError
from surefoot.events.event import Direction
from surefoot.orchestrator.deciding import carry_out
from surefoot.orchestrator.possible import Given, refusal, result_of
from surefoot.orchestrator.store import Store
from surefoot.orchestrator.work import Loaded, Work
from surefoot.outbox import Outbox
from surefoot.saga import NotNow
from surefoot.saga.instance import Status
from surefoot.saga.operating import signed
from surefoot.saga.stimulus import Operated, Verb

LOCK_WAIT_S = 10
LOCK_NOT_AVAILABLE = "55P03"
NOTED_AS = {"retry": "RETRIED", "skip": "SKIPPED", "pause": "PAUSED", "resume": "RESUMED", "compensate": "COMPENSATING"}


class UnknownSaga(SurefootError):
    """There is no such saga."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a decision did."""

    saga_id: str
    verb: Verb
    step: str
    """The one that was awaited when it was decided."""
    direction: Direction
    before: Status
    after: Status
    awaits: tuple[str, Direction] | None
    """Whose answer the saga waits for now."""
    sent: tuple[str, ...]
    """The types of what is published."""


async def operate(
    connection: Connection,
    store: Store,
    saga_id: str,
    operated: Operated,
    *,
    given: Given | None = None,
    version: int | None = None,
) -> Outcome:
    """`given`: the result for a step that is skipped. `version`: decide only if nothing was decided since that one.

    Raises NotNow if it cannot be done now: nothing was changed then."""
    async with Outbox(store.sql.schema).transaction(connection) as tx:
        saga = await _lock(connection, store, saga_id)
        if version is not None and version != saga.version:
            raise NotNow(
                f"The saga is at version {saga.version}, not {version}: something has happened since you looked. Look "
                f"again: surefoot saga show {saga_id}"
            )
        await _refuse_repeat(connection, store, saga, operated)
        refused = refusal(saga.definition, saga.instance, operated)
        if refused is not None:
            raise refused
        if operated.verb == "skip":
            operated = replace(operated, result=result_of(saga.definition, saga.instance, given))
        awaited, before = saga.instance.awaited, saga.instance.status
        assert awaited is not None  # a saga that has not ended waits for something
        work = _decided(saga, operated)
        await carry_out(store, connection, work, tx.add)
    now = saga.instance.awaited
    return Outcome(
        saga_id,
        operated.verb,
        awaited[0].name,
        awaited[1],
        before,
        saga.instance.status,
        None if now is None else (now[0].name, now[1]),
        tuple(event.type for _, event in work.events),
    )


def _decided(saga: Loaded, operated: Operated) -> Work:
    work = Work({saga.saga_id: saga})
    try:
        work.decide(saga, operated, None)
    except SurefootError:
        raise
    except Exception as error:  # of the functions in the definition, which are anybody's
        raise ConfigurationError(
            f"A function of the definition of {saga.definition.name} version {saga.definition.version} raised "
            f"{type(error).__name__}: {str(error).rstrip('.')}. Nothing was changed."
        ) from error
    return work


async def _lock(connection: Connection, store: Store, saga_id: str) -> Loaded:
    schema = store.sql.schema
    row = await connection.fetchrow(
        f"SELECT saga_type, definition_version FROM {schema}.saga_instances WHERE saga_id = $1::uuid", saga_id
    )
    if row is None:
        raise UnknownSaga(f"There is no saga {saga_id}. `surefoot saga list` shows those under way.")
    await connection.execute(f"SET LOCAL lock_timeout = '{LOCK_WAIT_S}s'")
    try:
        saga = (await store.lock(connection, [saga_id])).get(saga_id)
    except ConfigurationError as error:
        raise ConfigurationError(
            f"The saga {saga_id} is of {row[0]} version {row[1]}, and that definition is not among those named here. "
            "Name it: --sagas package.module:saga, or SUREFOOT_SAGAS."
        ) from error
    except Exception as error:
        if is_database_error(error) and getattr(error, "sqlstate", None) == LOCK_NOT_AVAILABLE:
            raise NotNow(
                f"Somebody has had the saga {saga_id} in hand for {LOCK_WAIT_S} s: an orchestrator that works on a "
                "large batch, or stands still. Nothing was changed; try again."
            ) from error
        raise
    if saga is None:  # of a version that is gone, or removed meanwhile: it has ended in either case
        raise NotNow(f"The saga {saga_id} has ended: nothing can be done to it any more.")
    known = await connection.fetchval(
        f"SELECT fingerprint FROM {schema}.saga_definitions WHERE saga_type = $1 AND version = $2", row[0], row[1]
    )
    if known is not None and known != saga.definition.fingerprint:
        raise ConfigurationError(
            f"The definition of {row[0]} version {row[1]} here is not the one that the orchestrators of this database "
            "use: run this where the same code is installed as there."
        )
    return saga


async def _refuse_repeat(connection: Connection, store: Store, saga: Loaded, operated: Operated) -> None:
    """The same verb, of the same person, for the same reason and step: that is the same decision."""
    history = f"{store.sql.schema}.saga_history"
    kind = NOTED_AS[operated.verb]
    if operated.verb == "pause" and saga.instance.status == "PAUSED":
        line = await connection.fetchrow(
            f"SELECT at, sentence FROM {history} WHERE saga_id = $1::uuid AND kind = $2 ORDER BY id DESC LIMIT 1",
            saga.saga_id,
            kind,
        )
        who = "" if line is None else f", since {_time(line[0])} ({line[1]})"
        raise NotNow(f"The saga is paused already{who}. Nothing was changed.")
    if operated.verb == "retry":
        # Nothing has come of the last one yet: nothing was noted behind it but its command, and what was ignored.
        line = await connection.fetchrow(
            f"""SELECT at, kind, sentence FROM {history}
                WHERE saga_id = $1::uuid AND kind NOT IN ('SENT', 'IGNORED') ORDER BY id DESC LIMIT 1""",
            saga.saga_id,
        )
        line = line if line is not None and (line[1], line[2]) == (kind, signed(operated)) else None
    elif operated.verb == "skip":
        line = await connection.fetchrow(
            f"""SELECT at FROM {history} WHERE saga_id = $1::uuid AND kind = $2 AND step = $3 AND sentence = $4
                ORDER BY id DESC LIMIT 1""",
            saga.saga_id,
            kind,
            operated.step,
            signed(operated),
        )
    else:
        return
    if line is not None:
        raise NotNow(
            f"That was decided already, at {_time(line[0])}, by the same person for the same reason, and is not done "
            "twice. If it is meant to be done once more, say why in other words."
        )


def _time(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%SZ}"
