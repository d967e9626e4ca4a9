"""What a state of the whole is, and what can happen next in it: to the saga, to the services, by people. Pure."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from surefoot.saga.definition import Definition
from surefoot.saga.instance import ENDED, Instance
from surefoot.saga.stimulus import Arrived, Operated, Replied
from surefoot.saga.verify import properties
from surefoot.saga.verify.deciding import Engine, Outcome
from surefoot.saga.verify.model import Limits, Move, Service, moves
from surefoot.saga.verify.verdict import Trouble


class State(NamedTuple):
    standing: int
    services: tuple[int, ...]
    """By their numbers, in the order in which they were first commanded."""
    came: frozenset[str]
    """Waits whose event has come, or was skipped."""
    actions: int
    """How often operators may still act."""


Event = Outcome | Move
Next = tuple[Event, State, Trouble | None]


class World:
    def __init__(self, definition: Definition, engine: Engine, limits: Limits) -> None:
        self._definition = definition
        self._engine = engine
        self._limits = limits
        self._moves: dict[int, tuple[tuple[Move, int], ...]] = {}

    def beginnings(self) -> Iterator[Next]:
        nothing = State(-1, (), frozenset(), self._limits.actions)
        for outcome in self._engine.beginning():
            yield outcome, *self._after(nothing, outcome)

    def instance(self, state: State) -> Instance:
        return self._engine.standings.things[state.standing]

    def successors(self, state: State) -> Iterator[Next]:
        for place, number in enumerate(state.services):
            for move, after in self._moves_of(number):
                services = (*state.services[:place], after, *state.services[place + 1 :])
                yield move, state._replace(services=services), None
            for outcome in self._engine.by_service(state.standing, number):
                yield outcome, *self._after(state, outcome)
        for outcome in self._engine.by_itself(state.standing):
            yield outcome, *self._after(state, outcome)
        if state.actions or self.instance(state).status == "PAUSED":
            for outcome in self._engine.by_person(state.standing):
                if state.actions or _is_resume(outcome):
                    yield outcome, *self._after(state, outcome)

    def trouble_in(self, state: State) -> Trouble | None:
        services = [self._engine.services.things[number] for number in state.services]
        by_itself = self._engine.trouble_of(state.standing)
        return by_itself or properties.world(self._definition, self.instance(state), services, state.came)

    def _moves_of(self, number: int) -> tuple[tuple[Move, int], ...]:
        if number not in self._moves:
            service = self._engine.services.things[number]
            found = moves(self._definition.step(service.step), service)
            self._moves[number] = tuple((move, self._engine.services.number(move.after)) for move in found)
        return self._moves[number]

    def _after(self, state: State, outcome: Outcome) -> tuple[State, Trouble | None]:
        """The world after a decision, and whether its commands may be sent."""
        stimulus, came, actions = outcome.stimulus, state.came, state.actions
        services = [self._engine.services.things[number] for number in state.services]
        if isinstance(stimulus, Operated):
            came = self._by_hand(outcome, stimulus, services, came)
            actions -= stimulus.verb != "resume"
        elif isinstance(stimulus, Arrived) and outcome.before.status not in ENDED:
            came = came | {stimulus.wait}
        elif (
            isinstance(stimulus, Replied) and stimulus.answer == "refused" and _awaits_do(outcome.before, stimulus.step)
        ):
            _change(services, stimulus.step, told_refused=True)
        trouble = outcome.trouble
        grants = 1 + self._limits.actions - actions
        for send in outcome.decision.sends:
            after = outcome.decision.instance
            trouble = trouble or properties.sent(self._definition, services, came, after, send, grants)
            if all(service.step != send.step for service in services):
                services.append(Service(send.step))
            _change(services, send.step, **{"sent" if send.direction == "do" else "undo_sent": send.attempt})
        numbers = tuple(self._engine.services.number(service) for service in services)
        return State(outcome.standing, numbers, came, actions), trouble

    @staticmethod
    def _by_hand(outcome: Outcome, asked: Operated, services: list[Service], came: frozenset[str]) -> frozenset[str]:
        """A step that is skipped is done, or undone, by a person, who answers for it."""
        awaited = outcome.before.awaited
        if asked.verb != "skip" or awaited is None:
            return came
        record, direction = awaited
        if all(service.step != record.name for service in services):
            return came | {record.name}
        _change(services, record.name, **{"skipped" if direction == "do" else "undo_skipped": True})
        return came


def _awaits_do(instance: Instance, step: str) -> bool:
    """Told later, when its undo is under way, a refusal changes nothing any more."""
    awaited = instance.awaited
    return awaited is not None and (awaited[0].name, awaited[1]) == (step, "do")


def _is_resume(outcome: Outcome) -> bool:
    return isinstance(outcome.stimulus, Operated) and outcome.stimulus.verb == "resume"


def _change(services: list[Service], name: str, **changes: Any) -> None:
    place = next(n for n, service in enumerate(services) if service.step == name)
    services[place] = services[place]._replace(**changes)
