"""A saga's definition: steps, waits and branches, as frozen data. `Saga` builds it and `checks` checks it."""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from typing import Any, Literal

from pydantic import BaseModel

from surefoot.errors import SurefootError
from surefoot.events import EventData, event_type_of
from surefoot.retry import Retry
from surefoot.saga.instance import Status

Make = Callable[..., EventData]
"""(context, results of steps by their types): the command, or the event, to send."""
Choose = Callable[..., str]
"""(context, results of steps by their types): the name of the path to take."""
WhenDead = Literal["undo", "wait"]
WhenLate = Literal["undo", "escalate"]
Reply = type[EventData]


class DefinitionError(SurefootError):
    """The saga's definition cannot be right."""


@dataclass(frozen=True, slots=True)
class Step:
    """Something a service does when it is commanded to, and undoes when it is commanded to."""

    name: str
    do: Make
    done_on: tuple[Reply, ...]
    refused_on: tuple[Reply, ...] = ()
    undo: Make | None = None
    undone_on: tuple[Reply, ...] = ()
    nothing_to_undo: bool = False
    """It has no effect that would have to be undone: a look, a message."""
    timeout: timedelta = timedelta(minutes=2)
    retry: Retry = field(default_factory=Retry)
    undo_retry: Retry = field(default_factory=Retry)
    when_dead: WhenDead = "undo"
    """What an unknown outcome means before the pivot: undo it with the others; or wait, STUCK, for a person or a
    replay."""
    unread_counts: bool = False
    """Whether a command that its service has not even read may time out."""
    handled_by: str | None = None
    """The consumer that reads the commands; the first word of their topic if it is not said."""
    pivot: bool = False
    after_pivot: bool = False

    @property
    def is_final(self) -> bool:
        """From its command on there is no way back."""
        return self.pivot or self.after_pivot


@dataclass(frozen=True, slots=True)
class Wait:
    """Waits for an event from outside, and not for ever."""

    name: str
    done_on: tuple[Reply, ...]
    deadline: timedelta
    when_late: WhenLate
    entity: str | None = None
    """The member of the event's data that has the saga's entity id; its key if it is not said."""
    tell: Make | None = None
    after_pivot: bool = False


@dataclass(frozen=True, slots=True)
class Branch:
    """Goes on by one of several paths, and after that with what follows the branch."""

    name: str
    by: Choose
    paths: Mapping[str, tuple["Node", ...]]


Node = Step | Wait | Branch


@dataclass(frozen=True)
class Definition:
    name: str
    version: int
    starts_on: type[EventData]
    context: type[BaseModel]
    begin: Callable[[Any], BaseModel]
    entity: str | None
    """The member of the start event's data that names what the saga is about; the event's key if it is not said."""
    starts_when: Callable[[Any], bool] | None
    """Not every such event starts one, if this is said."""
    nodes: tuple[Node, ...]
    tells: Mapping[Status, Make]

    @cached_property
    def parts(self) -> Mapping[str, Node]:
        """Every step, wait and branch by its name, in the order in which they are written."""
        return {node.name: node for node in walk(self.nodes)}

    @property
    def steps(self) -> Iterator[Step]:
        return (node for node in self.parts.values() if isinstance(node, Step))

    @property
    def waits(self) -> Iterator[Wait]:
        return (node for node in self.parts.values() if isinstance(node, Wait))

    def step(self, name: str) -> Step:
        node = self.parts[name]
        assert isinstance(node, Step)
        return node

    @cached_property
    def fingerprint(self) -> str:
        """Tells two definitions apart that go by one name and version: a saga under way must not change under it."""
        return hashlib.sha256("\n".join(lines_of(self.nodes)).encode()).hexdigest()[:16]


def walk(nodes: tuple[Node, ...]) -> Iterator[Node]:
    for node in nodes:
        yield node
        if isinstance(node, Branch):
            for path in node.paths.values():
                yield from walk(path)


def lines_of(nodes: tuple[Node, ...], depth: int = 0) -> Iterator[str]:
    """The shape that running sagas rely on: names, order, replies, whether there is an undo. Not times or attempts,
    which may be changed at any time."""
    indent = "  " * depth
    for node in nodes:
        if isinstance(node, Branch):
            yield f"{indent}branch {node.name}"
            for label, path in node.paths.items():
                yield f"{indent} path {label}"
                yield from lines_of(path, depth + 1)
        elif isinstance(node, Wait):
            yield f"{indent}wait {node.name} {types_of(node.done_on)} {node.when_late}"
        else:
            kind = "pivot" if node.pivot else "step"
            undo = types_of(node.undone_on) if node.undo is not None else "-"
            answers = f"{types_of(node.done_on)} {types_of(node.refused_on)} {undo}"
            yield f"{indent}{kind} {node.name} {answers} {node.when_dead}"


def types_of(replies: tuple[type[EventData], ...]) -> str:
    declared = sorted((event_type_of(reply).name, event_type_of(reply).version) for reply in replies)
    return ",".join(f"{name}.v{version}" for name, version in declared)
