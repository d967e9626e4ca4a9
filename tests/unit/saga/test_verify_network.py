"""The verifier's network has no state of its own. Here is one that has: commands and replies that were sent, each
delivered at any time. Both must allow the very same: else one of the arguments in `model` is wrong.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

from surefoot.saga import Definition, Instance, engine
from surefoot.saga.decision import Decision, Send
from surefoot.saga.definition import Branch
from surefoot.saga.stimulus import Fired, Replied
from surefoot.saga.verify.explore import Search
from surefoot.saga.verify.model import Limits, cut
from tests.support.saga import planted_sagas


@dataclass(frozen=True)
class Memory:
    do: str = ""
    undone: bool = False
    effect: bool = False


@dataclass(frozen=True)
class World:
    instance: Instance
    memories: tuple[tuple[str, Memory], ...]
    commands: frozenset[Send] = frozenset()
    replies: frozenset[Replied] = frozenset()


Seen = tuple[Instance, frozenset[tuple[str, Memory]]]


def no_branches(branch: Branch, standing: Instance) -> str:
    raise AssertionError(branch)


def explored(definition: Definition) -> set[Seen]:
    """Everything that can be, with a network that keeps what it was given."""
    memories = tuple((step.name, Memory()) for step in definition.steps)
    begun = engine.begin(definition, no_branches)
    known = {World(begun.instance, memories, frozenset(begun.sends))}
    todo = list(known)
    while todo:
        for world in successors(definition, todo.pop()):
            if world not in known:
                known.add(world)
                todo.append(world)
    return {(world.instance, frozenset(world.memories)) for world in known}


def successors(definition: Definition, world: World) -> Iterator[World]:
    for reply in world.replies:
        yield decided(world, engine.decide(definition, world.instance, reply, no_branches))
    timer = world.instance.timer
    if timer is not None:
        fired = Fired(timer.step, timer.direction, timer.attempt, timer.kind)
        yield decided(world, engine.decide(definition, world.instance, fired, no_branches))
    for command in world.commands:
        can_refuse = bool(definition.step(command.step).refused_on)
        memory = dict(world.memories)[command.step]
        for answer, after in handled(command, memory, can_refuse):
            memories = tuple((name, after if name == command.step else old) for name, old in world.memories)
            reply = Replied(command.step, command.direction, command.attempt, answer)  # type: ignore[arg-type]
            replies = world.replies | {reply} if answer else world.replies
            yield replace(world, memories=memories, replies=replies)


def decided(world: World, decision: Decision) -> World:
    return replace(world, instance=decision.instance, commands=world.commands | set(decision.sends))


def handled(command: Send, memory: Memory, can_refuse: bool) -> Iterator[tuple[str, Memory]]:
    """The table in docs/commands.md: the answer ("" if there is none), and what is remembered."""
    if command.direction == "undo":
        if memory.undone:
            yield "done", memory
            return
        yield "done", replace(memory, undone=True, effect=False)
        yield "failed", memory
        yield "failed", replace(memory, effect=False)
    elif memory.undone:
        yield "", memory
    elif memory.do:
        yield memory.do, memory
    else:
        yield "done", replace(memory, do="done", effect=True)
        yield "failed", memory
        yield "failed", replace(memory, effect=True)
        if can_refuse and not memory.effect:
            yield "refused", replace(memory, do="refused")


def verified(definition: Definition, limits: Limits) -> set[Seen]:
    search = Search(definition, engine.decide, engine.begin, limits)
    assert search.run(None) is None
    names = [step.name for step in definition.steps]
    seen = set()
    for state in search.states:
        memories = dict.fromkeys(names, Memory())
        for number in state.services:
            service = search.engine.services.things[number]
            do = "" if service.memory == "nothing" else service.memory
            memories[service.step] = Memory(do, service.undone, service.effect)
        seen.add((search.engine.standings.things[state.standing], frozenset(memories.items())))
    return seen


@pytest.mark.parametrize(
    ("definition", "attempts"), [(planted_sagas.one_step(), 2), (planted_sagas.two_steps(), 1)], ids=["one", "two"]
)
def test_a_network_without_a_state_allows_all_that_one_with_a_state_does(definition: Definition, attempts: int) -> None:
    limits = Limits(attempts=attempts, undo_attempts=attempts, actions=0)
    one, other = explored(cut(definition, limits)), verified(definition, limits)
    assert len(one) > 20
    assert not one - other
    assert not other - one
