"""What is refused when a saga is written: definitions that cannot be right, each with a sentence. Pure.

What needs a look at every way through the saga (an effect that nobody undoes, an end that is not reached) is for
`surefoot saga verify`.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any, get_args

from surefoot.events import EventData, event_type_of
from surefoot.saga.definition import (
    Branch,
    Definition,
    DefinitionError,
    Node,
    Step,
    Wait,
    WhenDead,
    WhenLate,
    context_of,
    giver_of,
    needs_of,
    walk,
)


def alone(saga: str, node: Step | Wait) -> None:
    """What a step or wait says of itself."""
    where = f"{saga}: {node.name}"
    for reply in node.done_on:
        event_type_of(reply)
    if not node.done_on:
        raise DefinitionError(f"{where} says by no event that it is done, so it has no way to end.")
    if isinstance(node, Wait):
        _wait_alone(where, node)
    else:
        _step_alone(where, node)


def _wait_alone(where: str, node: Wait) -> None:
    if node.deadline <= timedelta(0):
        raise DefinitionError(f"{where} has no deadline above zero, so it has no way to end.")
    if node.when_late not in get_args(WhenLate):
        raise DefinitionError(f"{where}: when_late is {node.when_late!r}; say undo or escalate.")
    if node.after_pivot and node.when_late == "undo":
        raise DefinitionError(f"{where} is behind the pivot, so nothing can be undone when it is late: escalate.")
    for event in node.done_on:
        _has_member(where, event, node.entity)


def _step_alone(where: str, node: Step) -> None:
    for reply in (*node.refused_on, *node.undone_on):
        event_type_of(reply)
    if node.when_dead not in get_args(WhenDead):
        raise DefinitionError(f"{where}: when_dead is {node.when_dead!r}; say undo or wait.")
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
    both = sorted(reply.__name__ for reply in set(node.done_on) & set(node.refused_on))
    if both:
        raise DefinitionError(f"{where} is both done and refused on {', '.join(both)}.")


def _has_member(where: str, event: type[EventData], entity: str | None) -> None:
    if entity is not None and entity not in event.model_fields:
        raise DefinitionError(f"{where}: the entity is said to be {entity}, and {event.__name__} has no such member.")


def same_members(definition: Definition) -> None:
    """Without `begin` the context is made of the start event's members of the same names."""
    given = set(definition.starts_on.model_fields)
    missing = [n for n, field in definition.context.model_fields.items() if field.is_required() and n not in given]
    if missing:
        raise DefinitionError(
            f"{definition.name}: the context {definition.context.__name__} needs {', '.join(missing)}, and "
            f"{definition.starts_on.__name__} has no such member: give the saga a begin that makes the context."
        )


def whole(definition: Definition) -> None:
    """What the parts say of each other."""
    if not any(isinstance(node, Step) for node in walk(definition.nodes)):
        raise DefinitionError(f"{definition.name} has no steps.")
    _has_member(definition.name, definition.starts_on, definition.entity)
    _functions(definition, definition.nodes, ())
    _one_wait_for_each(definition)
    everything = tuple(walk(definition.nodes))
    for status, make in definition.tells.items():
        _can_have(definition, f"what it tells of {status}", make, (), everything)


def _one_wait_for_each(definition: Definition) -> None:
    """An event is for one wait: nobody could say whether the second of two was meant, or the first again."""
    found: list[tuple[Wait, dict[str, str]]] = list(_waits(definition.nodes, {}))
    for n, (wait, way) in enumerate(found):
        if definition.starts_on in wait.done_on:
            raise DefinitionError(
                f"{definition.name}: {wait.name} waits for {definition.starts_on.__name__}, which starts the saga."
            )
        for other, other_way in found[:n]:
            both = {reply.__name__ for reply in wait.done_on} & {reply.__name__ for reply in other.done_on}
            apart = any(way.get(branch, label) != label for branch, label in other_way.items())
            if both and not apart:
                raise DefinitionError(
                    f"{definition.name}: {other.name} and {wait.name} both wait for {', '.join(sorted(both))}, so one "
                    "event would do for both: give each an event of its own."
                )


def _waits(nodes: Sequence[Node], way: dict[str, str]) -> Iterator[tuple[Wait, dict[str, str]]]:
    """Every wait, with the paths that lead to it."""
    for node in nodes:
        if isinstance(node, Wait):
            yield node, way
        elif isinstance(node, Branch):
            for label, path in node.paths.items():
                yield from _waits(path, {**way, node.name: label})


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
    context = context_of(function)
    if context is not None and not issubclass(definition.context, context):
        raise DefinitionError(
            f"{definition.name}: {what} takes {context.__name__} as its first argument, and gets the saga's context, "
            f"which is {definition.context.__name__}."
        )
    for need in needs_of(function):
        try:
            giver = giver_of(need, everything)
        except DefinitionError as error:
            raise DefinitionError(f"{definition.name}: {what} is not clear. {error}") from error
        asked = " or ".join(one.__name__ for one in need.types)
        if giver is None:
            raise DefinitionError(f"{definition.name}: {what} asks for {asked}, and no step is done on it.")
        complete = set(giver.done_on) <= set(need.types)
        if not need.optional and (giver not in sure or not complete):
            raise DefinitionError(
                f"{definition.name}: {what} needs {asked}, which {giver.name} may not have given by then: ask for "
                f"{asked} | None, and say what to do without."
            )
