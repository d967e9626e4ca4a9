"""A saga's definition: data, frozen, with what the engine asks of it. `Saga` builds it and has it checked."""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pydantic import BaseModel

from surefoot.events import EventData, event_type_of
from surefoot.saga.instance import Status
from surefoot.saga.parts import Branch, Make, Node, Step, Wait


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
