"""The result that somebody gives for a step they skip: it must be one that the step could have given, and it must not
be missing where others rely on it. Pure; the engine itself never looks at results.
"""

from collections.abc import Callable, Iterator
from typing import Any

from surefoot.events import EventData
from surefoot.saga.binding import giver_of, needs_of, stored_result
from surefoot.saga.definition import Definition
from surefoot.saga.operating import NotNow
from surefoot.saga.parts import Branch, Step, Wait


def result_for_skip(definition: Definition, name: str, result: EventData | None) -> Any:
    """The result as it is stored. Raises NotNow, with what to give, if it would not do."""
    node = definition.parts[name]
    assert isinstance(node, Step | Wait)
    possible = " or ".join(one.__name__ for one in node.done_on)
    if result is None:
        if any(_relies_on(definition, function, node) for function in functions_of(definition)):
            raise NotNow(f"Others need the result of {name}: give the {possible} that it is to be taken as done with.")
        return None
    if not isinstance(result, node.done_on):
        raise NotNow(f"{name} is done on {possible}, not on {type(result).__name__}: give such a result.")
    return stored_result(result)


def _relies_on(definition: Definition, function: Callable[..., Any], node: Step | Wait) -> bool:
    everything = tuple(definition.parts.values())
    return any(not need.optional and giver_of(need, everything) == node for need in needs_of(function))


def functions_of(definition: Definition) -> Iterator[Callable[..., Any]]:
    """All that are given results."""
    for node in definition.parts.values():
        if isinstance(node, Branch):
            yield node.by
        elif isinstance(node, Wait):
            if node.tell is not None:
                yield node.tell
        else:
            yield node.do
            if node.undo is not None:
                yield node.undo
    yield from definition.tells.values()
