"""An orchestrator with one protection taken out, to show that the crash tests would notice.

Each function below undoes one protection of the real orchestrator, as a plausible mistake would, and nothing else.
"""

import sys
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, cast

from surefoot.cli.main import main as main
from surefoot.consumer_runtime import batch
from surefoot.consumer_runtime.plan import Reading
from surefoot.consumer_runtime.unit import Position, Unit
from surefoot.database.connection import Connection, connect
from surefoot.events import Event, EventData
from surefoot.orchestrator import deciding, silence, timers
from surefoot.orchestrator.silence import Due, Evidence, Suspicion, Why
from surefoot.orchestrator.store import Statements, Store
from surefoot.orchestrator.work import Work
from surefoot.outbox import Outbox
from surefoot.saga import engine
from surefoot.saga.instance import StepRecord
from surefoot.saga.stimulus import Fired, Replied
from surefoot.saga.turn import Turn
from tests.support.weakened.statements import change_statement


def lock() -> None:
    """Sagas are read without a lock."""
    change_statement(Statements, "lock", "FOR UPDATE", "")
    change_statement(Statements, "lock_free", "FOR UPDATE SKIP LOCKED", "")


def version() -> None:
    """Whatever was decided is written, over whatever was decided meanwhile."""
    change_statement(Statements, "update", "AND s.version = n.version", "AND n.version IS NOT NULL")


def lock_and_version() -> None:
    lock()
    version()


def attempt() -> None:
    """A timer does not say what it belongs to: whichever fires is the one that is set now."""
    change_statement(Statements, "still_due", "AND fires_at <= now()", "")
    same = cast(Any, Due).identity
    real = engine.fired

    def any_timer(turn: Turn, timer: Fired) -> None:
        armed = turn.timer
        if armed is not None:
            real(turn, Fired(armed.step, armed.direction, armed.attempt, armed.kind))

    class AnyIdentity(tuple[Any, ...]):
        __slots__ = ()

        def __eq__(self, other: object) -> bool:
            return True

        __hash__ = tuple.__hash__

    Due.identity = property(lambda due: AnyIdentity(same.__get__(due)))  # type: ignore[assignment,method-assign]
    engine.fired = any_timer


def answers_the_awaited() -> None:
    """That something is done counts for whatever step is awaited."""
    real = engine.replied

    def any_reply(turn: Turn, reply: Replied) -> None:
        awaited = turn.awaited
        if awaited is not None and reply.answer == "done":
            record, direction = awaited
            made = record.attempt if direction == "do" else record.undo_attempt
            reply = replace(reply, step=record.name, direction=direction, attempt=made)
        real(turn, reply)

    engine.replied = any_reply


# -- beginnings ------------------------------------------------------------------------------------------------------


def inbox() -> None:
    """Every delivery counts as fresh."""
    real = cast(Any, batch).receive

    async def all_fresh(unit: Unit, known: Sequence[Reading]) -> None:
        await real(unit, known)

    cast(Any, batch).receive = all_fresh


def inbox_and_start() -> None:
    """Nor does anybody ask whether the saga has begun already. (The test takes the constraint away.)"""
    inbox()
    change_statement(Statements, "insert", "ON CONFLICT (entity_id, saga_type, start_event_id) DO NOTHING", "")


# -- commands --------------------------------------------------------------------------------------------------------


def outbox() -> None:
    """Commands are sent when the transaction that decided on them is over."""
    real, commit = deciding.carry_out, batch.Batches.take
    url = sys.argv[sys.argv.index("--database") + 1]
    decided: ContextVar[list[Event[EventData]]] = ContextVar("decided")

    async def send(events: list[Event[EventData]]) -> None:
        connection = await connect(url, name="weakened")
        async with Outbox().transaction(connection) as tx:
            for event in events:
                tx.add(event)
        await connection.close()

    async def carry_out(store: Store, connection: Connection, work: Work, publish: deciding.Publish) -> None:
        await real(store, connection, work, decided.get().append)

    async def take(self: batch.Batches, position: Position, readings: Sequence[Reading]) -> batch.Carried:
        events: list[Event[EventData]] = []
        decided.set(events)
        carried = await commit(self, position, readings)
        await send(events)
        return carried

    deciding.carry_out = carry_out
    batch.Batches.take = take  # type: ignore[method-assign]


# -- undo ------------------------------------------------------------------------------------------------------------


def undo_of_the_unknown() -> None:
    """Only what is known to be done is undone."""
    real = Turn._undo_next

    def forget(self: Turn) -> None:
        self._trail = [replace(one, state="LEFT") if one.state == "UNKNOWN" else one for one in self._trail]
        real(self)

    Turn._undo_next = forget  # type: ignore[method-assign]


def undo_order() -> None:
    """Undone in the order in which it was done."""
    real = Turn._undo_next

    def forwards(self: Turn) -> None:
        before: list[StepRecord] = self._trail
        self._trail = before[::-1]
        real(self)
        self._trail = self._trail[::-1]

    Turn._undo_next = forwards  # type: ignore[method-assign]


# -- silence ---------------------------------------------------------------------------------------------------------


def published() -> None:
    """A step's clock starts when it was decided, not when its command was published."""
    real = silence.judge

    def decided(due: Due, *others: Any) -> silence.Verdict:
        return real(replace(due, outbox_status=None, published_at=None), *others)

    cast(Any, timers).judge = decided


def change_what_is_seen(of_due: dict[str, Any], of_evidence: dict[str, Any]) -> None:
    """Have the judge see something else than there is."""
    real = silence.lagging

    def blind(due: Due, evidence: Evidence, *others: Any) -> tuple[Suspicion, Why | None]:
        return real(replace(due, **of_due), replace(evidence, **of_evidence), *others)

    silence.lagging = cast(Any, blind)


def unread() -> None:
    """Nobody asks whether the command was read."""
    change_what_is_seen({"reader": None}, {})


def relay_lags() -> None:
    """Nobody asks whether replies wait in the outbox."""
    change_what_is_seen({}, {"first_unsent": None})


def parked() -> None:
    """Nobody asks whether the reply is parked."""
    change_what_is_seen({}, {"parked": frozenset()})


def replies_lag() -> None:
    """Nobody asks whether all replies were read."""
    real = silence.lagging

    def all_read(*seen: Any) -> tuple[Suspicion, Why | None]:
        suspicion, why = real(*seen)
        return suspicion, None if why == "replies_lag" else why

    silence.lagging = cast(Any, all_read)


def ends_in_turn() -> None:
    """All ends are noted at once, before anything has flowed."""
    real = silence.begin

    def begin(due: Due, evidence: Evidence, topics: AbstractSet[str]) -> Suspicion:
        replies = {where: end for where, end in evidence.ends.items() if where.topic in topics}
        return replace(real(due, evidence, topics), replies=replies, written=evidence.last_written)

    silence.begin = begin


PROTECTIONS: dict[str, Callable[[], None]] = {
    made.__name__: made
    for made in (
        lock,
        version,
        lock_and_version,
        attempt,
        answers_the_awaited,
        inbox,
        inbox_and_start,
        outbox,
        undo_of_the_unknown,
        undo_order,
        published,
        unread,
        replies_lag,
        relay_lags,
        parked,
        ends_in_turn,
    )
}
