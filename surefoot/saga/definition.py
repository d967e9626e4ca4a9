"""A saga's definition: steps, waits and branches, as frozen data. `Saga` builds it and `checks` checks it.

Its functions are given the saga's context, and results of steps by the types they name: `def refund(order:
OrderPlacement, captured: PaymentCaptured | None)`. Since the types say what is needed, a definition that asks for a
result which may not be there is refused before the first saga runs.
"""

import hashlib
import inspect
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property, lru_cache
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


@dataclass(frozen=True, slots=True)
class Need:
    """A parameter: results of any of these types, or, if it is optional, None."""

    name: str
    types: tuple[type[EventData], ...]
    optional: bool


@lru_cache(maxsize=4096)
def needs_of(function: Callable[..., Any]) -> tuple[Need, ...]:
    """Its parameters behind the first, which is the context."""
    hints = _hints(function)
    return tuple(
        _need(parameter, hints.get(parameter.name), name_of(function)) for parameter in _parameters(function)[1:]
    )


def context_of(function: Callable[..., Any]) -> type[BaseModel] | None:
    """The model that it takes as its first argument; None if it does not say, or says something wider."""
    hint = _hints(function).get(_parameters(function)[0].name)
    return hint if isinstance(hint, type) and issubclass(hint, BaseModel) else None


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function)
    except (NameError, TypeError) as error:
        raise DefinitionError(
            f"The types of {name_of(function)} cannot be read ({error}): annotate it with classes."
        ) from error


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    parameters = list(inspect.signature(function).parameters.values())
    if not parameters:
        raise DefinitionError(f"{name_of(function)} takes no arguments: its first is the saga's context.")
    return parameters


def name_of(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__name__", repr(function)))


def _need(parameter: inspect.Parameter, hint: Any, function: str) -> Need:
    union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    asked = typing.get_args(hint) if union else (hint,)
    wanted = tuple(one for one in asked if one is not types.NoneType)
    by_name = parameter.kind in (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    if not by_name or not wanted or not all(isinstance(one, type) and issubclass(one, EventData) for one in wanted):
        raise DefinitionError(
            f"The parameter {parameter.name} of {function} names no result: annotate it with the event that a step is "
            "done on, such as captured: PaymentCaptured, with | None if it may be missing."
        )
    return Need(parameter.name, wanted, len(wanted) < len(asked))


def giver_of(need: Need, nodes: Sequence[Node]) -> Step | Wait | None:
    """The step or wait whose result is meant: of its types, and if there are several such, the one of its name."""
    fitting = [node for node in nodes if isinstance(node, Step | Wait) and set(node.done_on) & set(need.types)]
    if len(fitting) > 1:
        named = [node for node in fitting if node.name == need.name]
        if not named:
            several = ", ".join(node.name for node in fitting)
            raise DefinitionError(
                f"The parameter {need.name} could be the result of several steps ({several}): give the parameter the "
                "name of the one that is meant."
            )
        return named[0]
    return fitting[0] if fitting else None


def call(
    function: Callable[..., Any], context: BaseModel, nodes: Sequence[Node], results: Mapping[str, EventData | None]
) -> Any:
    """Call it with the context and the results it asks for. A check has made sure that those it must have are there."""
    given: dict[str, EventData | None] = {}
    for need in needs_of(function):
        giver = giver_of(need, nodes)
        found = None if giver is None else results.get(giver.name)
        if found is not None and not isinstance(found, need.types):
            found = None  # the step is done on several types, and this function asks for one of them
        if found is None and not need.optional:
            raise DefinitionError(f"{name_of(function)} asks for {need.name}, and there is no such result.")
        given[need.name] = found
    return function(context, **given)


def parse_result(node: Step | Wait, stored: Any) -> EventData | None:
    """A stored result, {"type": …, "version": …, "data": …}, as what the step is done on."""
    if stored is None:
        return None
    for reply in node.done_on:
        declared = event_type_of(reply)
        if declared.name == stored["type"] and declared.version == stored["version"]:
            return reply.model_validate(stored["data"])
    return None


def stored_result(data: EventData) -> dict[str, Any]:
    declared = event_type_of(data)
    return {"type": declared.name, "version": declared.version, "data": data.model_dump(mode="json")}
