"""The world around the engine, as small as it can be: one service for each step, and the network. Pure.

A service keeps to `docs/commands.md`: a barrier for do and undo, repeats answered by the reply that is remembered, a do
barred for good by its undo. A command may die, with its effect had or not; the reply then is "failed", nothing is
remembered, and any attempt may run later. A refusal means that there is no effect, also none of an attempt that died.

**The network has no state of its own.** Commands and replies may be late, in any order, and repeated. So what can be
delivered now follows from what was sent and what the service remembers:

- Any attempt that was sent can be handled now. To the barrier all attempts are the same, so which of them is handled
  makes no difference to the service.
- Any attempt that was sent can be answered now by the remembered reply: had it been handled at the moment when that was
  remembered, its reply could have been under way ever since; and if it was sent later, it is a repeat.
- Any attempt that was sent can be answered "failed" now: it could have died without an effect right after it was sent,
  and its reply be under way ever since. (Where a reply was remembered before it was sent, it could not really have
  died. Then the model allows more than can happen, which may find too much, and hides nothing.)
- A timer fires at any time, an old one too, as often as it likes.

That nothing answers is possible as well: a command that its service cannot read is never answered.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal, NamedTuple

from surefoot.saga.definition import Branch, Definition, Node, Step
from surefoot.saga.stimulus import Fired, Replied

Memory = Literal["nothing", "done", "refused"]
Deed = Literal[
    "does it",
    "refuses",
    "does it, and dies before it can remember that",
    "undoes it",
    "undoes it, and dies before it can remember that",
]


@dataclass(frozen=True, slots=True)
class Limits:
    """Where the exploration is cut, so that it ends. A proof holds within them."""

    attempts: int = 2
    """Of a do; as the definition says, if that is fewer."""
    undo_attempts: int = 2
    actions: int = 1
    """How often an operator acts. To resume is free."""
    held: int = 2
    """How many stimuli come during a pause."""
    states: int = 3_000_000


class Service(NamedTuple):
    """What a step's service was sent, remembers and has done; and what people took upon themselves."""

    step: str
    sent: int = 0
    undo_sent: int = 0
    memory: Memory = "nothing"
    undone: bool = False
    """The undo was carried out, and so the do is barred."""
    effect: bool = False
    told_refused: bool = False
    """Its refusal has reached the orchestrator, which was not paused and awaited it."""
    skipped: bool = False
    undo_skipped: bool = False


class Move(NamedTuple):
    """A service handles a command."""

    deed: Deed
    after: Service


def cut(definition: Definition, limits: Limits) -> Definition:
    """The definition with fewer attempts: every further one is like the last, as nothing else counts them."""
    return replace(definition, nodes=tuple(_cut(node, limits) for node in definition.nodes))


def _cut(node: Node, limits: Limits) -> Node:
    if isinstance(node, Branch):
        paths = {label: tuple(_cut(each, limits) for each in path) for label, path in node.paths.items()}
        return replace(node, paths=paths)
    if isinstance(node, Step):
        retry = replace(node.retry, attempts=min(node.retry.attempts, limits.attempts))
        undo_retry = replace(node.undo_retry, attempts=min(node.undo_retry.attempts, limits.undo_attempts))
        return replace(node, retry=retry, undo_retry=undo_retry)
    return node


def moves(step: Step, service: Service) -> Iterator[Move]:
    """What the service may do with a command that was sent; what changes nothing is left out."""
    if service.sent and service.memory == "nothing" and not service.undone:
        yield Move("does it", service._replace(memory="done", effect=True))
        if step.refused_on and not service.effect:
            yield Move("refuses", service._replace(memory="refused"))
        if not service.effect and not step.nothing_to_undo:
            yield Move("does it, and dies before it can remember that", service._replace(effect=True))
    if service.undo_sent and not service.undone:
        yield Move("undoes it", service._replace(undone=True, effect=False))
        if service.effect:
            yield Move("undoes it, and dies before it can remember that", service._replace(effect=False))


@lru_cache(maxsize=100_000)
def replies(service: Service) -> tuple[Replied, ...]:
    """What can be delivered to the orchestrator now."""
    found = []
    for attempt in range(1, service.sent + 1):
        found.append(Replied(service.step, "do", attempt, "failed"))
        if service.memory != "nothing":
            found.append(Replied(service.step, "do", attempt, service.memory))
    for attempt in range(1, service.undo_sent + 1):
        found.append(Replied(service.step, "undo", attempt, "failed"))
        if service.undone:
            found.append(Replied(service.step, "undo", attempt, "done"))
    return tuple(found)


@lru_cache(maxsize=100_000)
def timers(service: Service) -> tuple[Fired, ...]:
    """Those that may have been set for its commands: for the answer to each attempt, and for the rest after it."""
    found = []
    for attempt in range(1, service.sent + 1):
        found.append(Fired(service.step, "do", attempt, "timeout"))
        found.append(Fired(service.step, "do", attempt, "rest"))
    for attempt in range(1, service.undo_sent + 1):
        found.append(Fired(service.step, "undo", attempt, "timeout"))
        found.append(Fired(service.step, "undo", attempt, "rest"))
    return tuple(found)
