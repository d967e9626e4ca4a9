"""The sagas that an orchestrator runs: every version that may be under way, and which events concern them. Pure.

An event begins a saga, answers a command of one, is what one waits for, or says that a command died.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from surefoot.consumer.contracts import CommandFailed
from surefoot.errors import ConfigurationError
from surefoot.events import Event, EventData, event_type_of
from surefoot.events.event import Direction
from surefoot.saga import Definition, Saga
from surefoot.saga.definition import Step, Wait, stored_result
from surefoot.saga.stimulus import Answer, Arrived, Replied

EventName = tuple[str, int]
"""An event type's name and version."""


class UnknownVersion(ConfigurationError):
    """There are sagas of a version that is not here; a newer orchestrator runs beside this one, or did."""


@dataclass(frozen=True, slots=True)
class Awaits:
    """An event type that a saga waits for."""

    saga_type: str
    version: int
    wait: Wait


class Registry:
    def __init__(self, sagas: Iterable[Saga]) -> None:
        self.definitions: dict[tuple[str, int], Definition] = {}
        for saga in sagas:
            definition = saga.definition
            place = (definition.name, definition.version)
            if self.definitions.setdefault(place, definition) is not definition:
                raise ConfigurationError(
                    f"There are two definitions of {definition.name} version {definition.version}: a changed one needs "
                    "a new version, and the old one stays beside it until its last saga has ended."
                )
        if not self.definitions:
            raise ConfigurationError("There are no sagas to run: name at least one, as package.module:saga.")
        self.starts: dict[EventName, list[Definition]] = {}
        self.waits: dict[EventName, list[Awaits]] = {}
        for definition in self.newest():
            self.starts.setdefault(name_of(definition.starts_on), []).append(definition)
        for definition in self.definitions.values():
            for wait in definition.waits:
                awaits = Awaits(definition.name, definition.version, wait)
                for reply in wait.done_on:
                    self.waits.setdefault(name_of(reply), []).append(awaits)

    def newest(self) -> Sequence[Definition]:
        """The versions that new sagas begin with."""
        found: dict[str, Definition] = {}
        for (name, version), definition in sorted(self.definitions.items()):
            del version
            found[name] = definition
        return tuple(found.values())

    def awaiting(self, event_type: str | None) -> Sequence[Awaits]:
        """Who waits for events of this type, of whichever version."""
        return [awaits for (name, _), several in self.waits.items() if name == event_type for awaits in several]

    def knows(self, saga_type: str, version: int) -> bool:
        return (saga_type, version) in self.definitions

    def definition(self, saga_type: str, version: int) -> Definition:
        found = self.definitions.get((saga_type, version))
        if found is None:
            raise UnknownVersion(
                f"There are sagas of {saga_type} version {version} under way, and this process does not know that "
                "version: deploy it beside the newer one until the last of them has ended."
            )
        return found

    @property
    def event_classes(self) -> tuple[type[EventData], ...]:
        """What an orchestrator has to read: beginnings, replies, what is waited for, and commands that died."""
        wanted: dict[type[EventData], None] = {CommandFailed: None}
        for definition in self.definitions.values():
            wanted[definition.starts_on] = None
            for node in definition.parts.values():
                if isinstance(node, Step):
                    wanted |= dict.fromkeys((*node.done_on, *node.refused_on, *node.undone_on))
                elif isinstance(node, Wait):
                    wanted |= dict.fromkeys(node.done_on)
        return tuple(wanted)

    @property
    def reply_topics(self) -> tuple[str, ...]:
        return tuple(sorted({event_type_of(one).topic.name for one in self.event_classes}))


def name_of(event: type[EventData]) -> EventName:
    declared = event_type_of(event)
    return declared.name, declared.version


def answer_of(step: Step, direction: Direction, event: EventName) -> Answer | None:
    """What a reply of this type means for a step; None if it means nothing."""
    if direction == "undo":
        return "done" if event in map(name_of, step.undone_on) else None
    if event in map(name_of, step.done_on):
        return "done"
    return "refused" if event in map(name_of, step.refused_on) else None


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
