"""The orchestrator as a consumer: of beginnings, of replies, of what sagas wait for, and of commands that died."""

from collections.abc import Sequence
from typing import Any

from surefoot.consumer import Consumer, Retry, Transaction
from surefoot.events import Event
from surefoot.orchestrator.deciding import Deciding
from surefoot.orchestrator.registry import Registry, UnknownVersion
from surefoot.orchestrator.store import ChangedMeanwhile

NAME = "orchestrator"


def consumer_of(registry: Registry, deciding: Deciding, *, name: str = NAME, retry: Retry | None = None) -> Consumer:
    """What is dead holds its key: a saga must not hear of a later event of an entity before an earlier one. Sagas of a
    version that is not here wait for an orchestrator that knows it: nothing of theirs gets dead for it."""
    consumer = Consumer(name, retry=retry, transient=[ChangedMeanwhile], dependencies=[UnknownVersion])

    @consumer.on_batch(*registry.event_classes)
    async def decide(events: Sequence[Event[Any]], tx: Transaction) -> None:
        await deciding.take(events, tx)

    return consumer
