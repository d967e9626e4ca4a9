"""The sagas that an orchestrator runs: every version that may be under way, and which events concern them. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from surefoot.consumer.contracts import CommandFailed
from surefoot.errors import ConfigurationError
from surefoot.events import EventData, event_type_of
from surefoot.events.commands import Direction
from surefoot.saga import Definition, Saga
from surefoot.saga.definition import Step, Wait
from surefoot.saga.stimulus import Answer

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
