"""A batch of stimuli: looked up, decided on, written, all in the transaction that takes them off the inbox.

Sagas are locked in sorted order, so that two partitions whose replies concern the same sagas take turns. Each decision
is the engine's; this is the I/O around it.
"""

from collections.abc import Callable, Sequence
from typing import Any, cast
from uuid import UUID

import structlog
from uuid_utils import uuid7

from surefoot.consumer import Consumer, Permanent, Retry, Transaction
from surefoot.database.connection import Connection
from surefoot.events import Event, EventData
from surefoot.failpoints import failpoint
from surefoot.orchestrator.metrics import DECISIONS, ENDED, IGNORED, STARTED
from surefoot.orchestrator.registry import (
    Found,
    Registry,
    Sent,
    UnknownVersion,
    begins,
    entity_of,
    questions,
    read_reply,
    stimuli,
)
from surefoot.orchestrator.store import ChangedMeanwhile, Store
from surefoot.orchestrator.work import Loaded, Work
from surefoot.saga import Definition
from surefoot.saga.stimulus import Replied

log = structlog.get_logger("surefoot.orchestrator")
Publish = Callable[[Event[EventData]], object]


class Deciding:
    def __init__(self, registry: Registry, store: Store) -> None:
        self._registry = registry
        self._store = store

    async def take(self, events: Sequence[Event[Any]], tx: Transaction) -> None:
        """The handler of the orchestrator's consumer."""
        await failpoint("saga.read")
        raw = await (await tx.session.connection()).get_raw_connection()
        connection = cast(Connection, raw.driver_connection)

        def publish(event: Event[EventData]) -> object:
            return tx.add(tx.session, event, key=None, caused_by=cast(Any, None))

        await self.decide(connection, events, publish)

    async def decide(self, connection: Connection, events: Sequence[Event[Any]], publish: Publish) -> Work:
        found = await self._look_up(connection, events)
        concerned = [saga_id for event in events for saga_id, _ in stimuli(self._registry, event, found)]
        work = Work(await self._store.lock(connection, [one for one in concerned if is_uuid(one)]))
        for event in events:
            meant = stimuli(self._registry, event, found)  # before it begins one: that has heard of it
            self._begin(work, event, found)
            for saga_id, stimulus in meant:
                saga = work.sagas.get(saga_id)
                if saga is None:
                    IGNORED.labels("no_saga").inc()
                    continue
                if isinstance(stimulus, Replied):
                    reply = read_reply(saga.definition, stimulus, event)
                    if reply is None:
                        IGNORED.labels("no_answer").inc()
                        continue
                    stimulus = reply
                work.decide(saga, stimulus, event)
        await failpoint("saga.decided")
        await carry_out(self._store, connection, work, publish)
        return work

    def _begin(self, work: Work, event: Event[Any], found: Found) -> None:
        for definition in begins(self._registry, event):
            saga = new_saga(definition, event)
            work.begin(saga, event)
            # What it waits for may come in the same batch.
            found.waiting.setdefault((definition.name, definition.version, saga.entity_id), []).append(saga.saga_id)

    async def _look_up(self, connection: Connection, events: Sequence[Event[Any]]) -> Found:
        asked = questions(self._registry, events)
        commands: dict[str, Sent] = {}
        waiting: dict[tuple[str, int, str], list[str]] = {}
        if asked.commands:
            for row in await connection.fetch(self._store.sql.commands, asked.commands):
                commands[row[0]] = Sent(row[1], row[2], row[3], row[4])
        if asked.entities:
            types, entities = zip(*set(asked.entities), strict=True)
            for row in await connection.fetch(self._store.sql.waiting, list(types), list(entities)):
                waiting.setdefault((row[1], row[2], row[3]), []).append(row[0])
        return Found(commands, waiting)


async def carry_out(store: Store, connection: Connection, work: Work, publish: Publish) -> None:
    """Write what was decided, and publish what it says, in the transaction that is open."""
    if any(line.kind == "SENT" and line.direction == "undo" for line in work.lines):
        await failpoint("saga.undoing")
    if any(saga.is_changed and saga.has_ended for saga in work.sagas.values()):
        await failpoint("saga.ending")
    await store.write(connection, work)
    await failpoint("saga.written")
    for _, event in work.events:
        publish(event)
    count(work)


def new_saga(definition: Definition, event: Event[Any]) -> Loaded:
    context = definition.begin(event.data)
    entity = entity_of(definition.entity, event)
    if entity is None:
        raise Permanent(f"The {event.type} event has no {definition.entity}, so nobody knows what its saga is about.")
    return Loaded(
        saga_id=str(uuid7()),
        definition=definition,
        entity_id=entity,
        start_event_id=event.id,
        correlation_id=event.correlation_id or event.id,
        context=context.model_dump(mode="json"),
        instance=cast(Any, None),
        version=0,
    )


def count(work: Work) -> None:
    DECISIONS.inc(len(work.lines))
    for saga in work.sagas.values():
        if saga.version == 0:
            STARTED.labels(saga.definition.name).inc()
        if saga.instance.status != saga.status_before and (saga.has_ended or saga.instance.status == "STUCK"):
            ENDED.labels(saga.definition.name, saga.instance.status).inc()


def is_uuid(text: str) -> bool:
    """A `command.failed` may name a saga of another orchestrator, which has ids of its own kind."""
    try:
        UUID(text)
    except ValueError:
        return False
    return True


NAME = "orchestrator"


def consumer_of(registry: Registry, deciding: Deciding, *, name: str = NAME, retry: Retry | None = None) -> Consumer:
    """What is dead holds its key: a saga must not hear of a later event of an entity before an earlier one. Sagas of a
    version that is not here wait for an orchestrator that knows it: nothing of theirs gets dead for it."""
    consumer = Consumer(name, retry=retry, transient=[ChangedMeanwhile], dependencies=[UnknownVersion])

    @consumer.on_batch(*registry.event_classes)
    async def decide(events: Sequence[Event[Any]], tx: Transaction) -> None:
        await deciding.take(events, tx)

    return consumer
