"""What the functions of a definition ask for, and giving it to them.

A function is given the saga's context, and results of steps by the types it names: `def refund(order: OrderPlacement,
captured: PaymentCaptured | None)`. Since the types say what is needed, a definition that asks for a result which may
not be there is refused before the first saga runs.
"""

import inspect
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pydantic import BaseModel

from surefoot.events import EventData, event_type_of
from surefoot.saga.definition import DefinitionError, Node, Step, Wait


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
