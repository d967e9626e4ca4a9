"""Drives the engine in tests: keeps the saga's standing between decisions, and shows decisions as short words."""

from typing import Any

from surefoot.events.event import Direction
from surefoot.saga import Definition, Instance, begin, decide
from surefoot.saga.decision import Decision
from surefoot.saga.definition import Branch
from surefoot.saga.stimulus import Arrived, Fired, Operated, Replied, Stimulus, Verb


class Driven:
    def __init__(self, definition: Definition, **choices: str) -> None:
        self._definition = definition
        self._choices = choices
        self.last: Decision = begin(definition, self._choose)

    @property
    def saga(self) -> Instance:
        return self.last.instance

    @property
    def status(self) -> str:
        return self.saga.status

    @property
    def sent(self) -> list[str]:
        """What the last decision sends, such as `do pay 2`."""
        return [f"{send.direction} {send.step} {send.attempt}" for send in self.last.sends]

    @property
    def told(self) -> list[str]:
        return [tell.status or tell.step or "" for tell in self.last.tells]

    @property
    def notes(self) -> list[str]:
        return [note.kind for note in self.last.notes]

    @property
    def states(self) -> dict[str, str]:
        return {record.name: record.state for record in self.saga.trail}

    @property
    def timer(self) -> str | None:
        """What it waits for, such as `timeout do pay 2`."""
        timer = self.saga.timer
        return None if timer is None else f"{timer.kind} {timer.direction} {timer.step} {timer.attempt}"

    @property
    def armed(self) -> bool:
        return self.last.arm is not None

    def take(self, stimulus: Stimulus) -> "Driven":
        self.last = decide(self._definition, self.saga, stimulus, self._choose)
        return self

    def done(self, step: str, attempt: int = 1, result: Any = None) -> "Driven":
        return self.take(Replied(step, "do", attempt, "done", result))

    def refused(self, step: str, attempt: int = 1, why: str = "") -> "Driven":
        return self.take(Replied(step, "do", attempt, "refused", why=why))

    def failed(self, step: str, attempt: int = 1, direction: Direction = "do", why: str = "") -> "Driven":
        return self.take(Replied(step, direction, attempt, "failed", why=why))

    def undone(self, step: str, attempt: int = 1) -> "Driven":
        return self.take(Replied(step, "undo", attempt, "done"))

    def arrived(self, wait: str, result: Any = None) -> "Driven":
        return self.take(Arrived(wait, result))

    def time_passes(self) -> "Driven":
        """The timer that is set fires."""
        timer = self.saga.timer
        assert timer is not None, "no timer is set"
        return self.take(Fired(timer.step, timer.direction, timer.attempt, timer.kind))

    def never_answers(self) -> "Driven":
        """The step awaited answers no attempt: every timeout and every rest passes, until something else happens."""
        timer = self.saga.timer
        while self.saga.timer is not None and timer is not None:
            if (self.saga.timer.step, self.saga.timer.direction) != (timer.step, timer.direction):
                break
            self.time_passes()
        return self

    def operate(self, verb: Verb, step: str | None = None, result: Any = None) -> "Driven":
        return self.take(Operated(verb, "ann", "I looked", step, result))

    def _choose(self, branch: Branch, instance: Instance) -> str:
        return self._choices[branch.name]
