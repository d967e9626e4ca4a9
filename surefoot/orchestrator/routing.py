"""From an event to the sagas it concerns: beginnings, replies, what is waited for, commands that died. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from surefoot.consumer.contracts import CommandFailed
from surefoot.events import Event, EventData
from surefoot.events.commands import Direction
from surefoot.orchestrator.registry import Awaits, Registry, answer_of
from surefoot.saga import Definition
from surefoot.saga.binding import stored_result
from surefoot.saga.definition import Step
from surefoot.saga.stimulus import Arrived, Replied


@dataclass(frozen=True, slots=True)
class Sent:
    """A command that a saga has sent."""

    saga_id: str
    step: str
    direction: Direction
    attempt: int


@dataclass(slots=True)
class Questions:
    """What has to be looked up before a batch can be routed."""

    commands: list[str] = field(default_factory=list)
    entities: list[tuple[str, str]] = field(default_factory=list)
    """(saga type, entity id)"""


@dataclass(frozen=True, slots=True)
class Found:
    """The answers."""

    commands: dict[str, Sent]
    waiting: dict[tuple[str, int, str], list[str]]
    """(saga type, version, entity id): the sagas that are under way."""


def questions(registry: Registry, events: Sequence[Event[Any]]) -> Questions:
    asked = Questions()
    for event in events:
        if not isinstance(event.data, CommandFailed) and event.causation_id is not None:
            asked.commands.append(event.causation_id)
        for awaits in registry.waits.get((event.type, event.version), ()):
            entity = entity_of(awaits.wait.entity, event)
            if entity is not None:
                asked.entities.append((awaits.saga_type, entity))
    return asked


def begins(registry: Registry, event: Event[Any]) -> Sequence[Definition]:
    """The sagas that this event starts."""
    found = registry.starts.get((event.type, event.version), ())
    return [one for one in found if one.starts_when is None or one.starts_when(event.data)]


def stimuli(registry: Registry, event: Event[Any], found: Found) -> list[tuple[str, Replied | Arrived]]:
    """What the event means, and for which sagas."""
    data = event.data
    if isinstance(data, CommandFailed):
        failed = Replied(data.step, data.direction, data.attempt, "failed", why=data.error, event_id=event.id)
        return [(data.saga_id, failed)]
    meant: list[tuple[str, Replied | Arrived]] = []
    for awaits in registry.waits.get((event.type, event.version), ()):
        entity = entity_of(awaits.wait.entity, event)
        waiting = () if entity is None else found.waiting.get((awaits.saga_type, awaits.version, entity), ())
        meant += [(saga_id, arrived(awaits, event)) for saga_id in waiting]
    sent = None if event.causation_id is None else found.commands.get(event.causation_id)
    if sent is not None:
        result = stored_result(data)
        # What the reply means depends on the saga's version, which is known when the saga is in hand.
        reply = Replied(sent.step, sent.direction, sent.attempt, "done", result, sentence_of(data), event.id)
        meant.append((sent.saga_id, reply))
    return meant


def arrived(awaits: Awaits, event: Event[Any]) -> Arrived:
    return Arrived(awaits.wait.name, stored_result(event.data), event.id)


def read_reply(definition: Definition, reply: Replied, event: Event[Any]) -> Replied | None:
    """The reply as this saga's version understands it; None if its type means nothing there."""
    if reply.answer == "failed":
        return reply
    node = definition.parts.get(reply.step)
    answer = answer_of(node, reply.direction, (event.type, event.version)) if isinstance(node, Step) else None
    if answer is None:
        return None
    return Replied(reply.step, reply.direction, reply.attempt, answer, reply.result, reply.why, reply.event_id)


def entity_of(member: str | None, event: Event[EventData]) -> str | None:
    """None if the event leaves open what it is about."""
    if member is None:
        return event.key
    found = getattr(event.data, member)
    return None if found is None else str(found)


def sentence_of(data: EventData) -> str:
    """Why, if a reply says so: the member `reason`, by convention."""
    return str(getattr(data, "reason", "") or "")
