"""What is refused when a saga is written: definitions that cannot be right, each with a sentence. Pure.

What needs a look at every way through the saga (an effect that nobody undoes, an end that is not reached) is for
`surefoot saga verify`.
"""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from surefoot.events import event_type_of
from surefoot.saga.binding import giver_of, needs_of
from surefoot.saga.definition import Definition, walk
from surefoot.saga.parts import Branch, DefinitionError, Node, Step, Wait


def alone(saga: str, node: Step | Wait) -> None:
    """What a step or wait says of itself."""
    where = f"{saga}: {node.name}"
    for reply in node.done_on:
        event_type_of(reply)
    if not node.done_on:
        raise DefinitionError(f"{where} says by no event that it is done, so it has no way to end.")
    if isinstance(node, Wait):
        if node.deadline <= timedelta(0):
            raise DefinitionError(f"{where} has no deadline above zero, so it has no way to end.")
        if node.after_pivot and node.when_late == "undo":
            raise DefinitionError(f"{where} is behind the pivot, so nothing can be undone when it is late: escalate.")
        return
    if node.timeout <= timedelta(0):
        raise DefinitionError(f"{where} has no timeout above zero, so it has no way to end.")
    if node.after_pivot and node.undo is not None:
        raise DefinitionError(f"{where} has an undo and is behind the pivot, where nothing is undone any more.")
    if node.after_pivot and node.refused_on:
        raise DefinitionError(
            f"{where} can be refused and is behind the pivot, where nothing is undone any more: it has no way to end."
        )
    if node.undo is None and node.undone_on:
        raise DefinitionError(f"{where} has undone_on without undo.")
    if node.undo is not None and not node.undone_on:
        raise DefinitionError(f"{where} has an undo and no undone_on, so the undo has no way to end.")
    if node.undo is not None and node.nothing_to_undo:
        raise DefinitionError(f"{where} has an undo, and says that there is nothing to undo.")
    both = {reply.__name__ for reply in node.done_on} & {reply.__name__ for reply in node.refused_on}
    if both:
        raise DefinitionError(f"{where} is both done and refused on {', '.join(sorted(both))}.")


def whole(definition: Definition) -> None:
    """What the parts say of each other."""
    if not any(isinstance(node, Step) for node in walk(definition.nodes)):
        raise DefinitionError(f"{definition.name} has no steps.")
    _functions(definition, definition.nodes, ())
    everything = tuple(walk(definition.nodes))
    for status, make in definition.tells.items():
        _can_have(definition, f"what it tells of {status}", make, (), everything)


def _functions(definition: Definition, nodes: Sequence[Node], before: tuple[Node, ...]) -> None:
    """`before`: the nodes that are done for sure when the first of `nodes` is reached."""
    everything = tuple(walk(definition.nodes))
    for node in nodes:
        if isinstance(node, Step):
            _can_have(definition, f"the do of {node.name}", node.do, before, everything)
            if node.undo is not None:
                # Not the step's own: it is undone as well when nobody knows whether it was done.
                _can_have(definition, f"the undo of {node.name}", node.undo, before, everything)
        elif isinstance(node, Wait):
            if node.tell is not None:
                _can_have(definition, f"what {node.name} tells when it is late", node.tell, before, everything)
        else:
            _paths(definition, node)
            _can_have(definition, f"the choice of {node.name}", node.by, before, everything)
            for path in node.paths.values():
                _functions(definition, path, before)
        before = (*before, node)


def _paths(definition: Definition, branch: Branch) -> None:
    if not branch.paths:
        raise DefinitionError(f"{definition.name}: the branch {branch.name} has no paths, so it leads nowhere.")


def _can_have(
    definition: Definition,
    what: str,
    function: Callable[..., Any],
    sure: Sequence[Node],
    everything: Sequence[Node],
) -> None:
    for need in needs_of(function):
        giver = giver_of(need, everything)
        asked = " or ".join(one.__name__ for one in need.types)
        if giver is None:
            raise DefinitionError(f"{definition.name}: {what} asks for {asked}, and no step is done on it.")
        complete = set(giver.done_on) <= set(need.types)
        if not need.optional and (giver not in sure or not complete):
            raise DefinitionError(
                f"{definition.name}: {what} needs {asked}, which {giver.name} may not have given by then: ask for "
                f"{asked} | None, and say what to do without."
            )
