"""An environment made by chance: services that do, refuse, die, answer late and twice; timers old and new; operators.

It tells a story: each turn is the standing before, what happened, and what was decided. `invariants` judges it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import get_args

from surefoot.saga import Definition, Instance, NotNow, begin, decide
from surefoot.saga.decision import Decision, Send
from surefoot.saga.definition import Branch
from surefoot.saga.instance import ENDED
from surefoot.saga.stimulus import Arrived, Fired, Operated, Replied, Stimulus, Verb

ENOUGH = 500
"""Turns after which a saga that nobody disturbs must have ended."""


@dataclass(frozen=True, slots=True)
class Turned:
    before: Instance
    stimulus: Stimulus | None
    decision: Decision


class World:
    def __init__(self, definition: Definition, chance: Random, *, operators: bool) -> None:
        self.definition = definition
        self.operators = operators
        self.turns: list[Turned] = []
        self._chance = chance
        self._sent: list[Send] = []
        self._fired: list[Fired] = []
        self._began(begin(definition, self.choose))

    @property
    def saga(self) -> Instance:
        return self.turns[-1].decision.instance

    def choose(self, branch: Branch, instance: Instance) -> str:
        """Nothing but the names and what was done so far: the same for the same standing."""
        labels = sorted(branch.paths)
        return labels[(len(instance.trail) + len(branch.name)) % len(labels)]

    def happen(self, moves: int) -> None:
        for _ in range(moves):
            if self.saga.status in ENDED:
                break
            self.take(self._something())

    def drain(self) -> None:
        """Nobody answers any more and nobody disturbs it; only time passes."""
        for _ in range(ENOUGH):
            timer = self.saga.timer
            if self.saga.status == "PAUSED":
                self.take(Operated("resume", "ann", "go on"))
            elif timer is not None:
                self.take(Fired(timer.step, timer.direction, timer.attempt, timer.kind))
            else:
                return

    def take(self, stimulus: Stimulus) -> None:
        before = self.saga
        try:
            decision = decide(self.definition, before, stimulus, self.choose)
        except NotNow:
            return
        self.turns.append(Turned(before, stimulus, decision))
        self._sent += decision.sends

    def _began(self, decision: Decision) -> None:
        self.turns.append(Turned(Instance(), None, decision))
        self._sent += decision.sends

    def _something(self) -> Stimulus:
        kind = self._chance.random()
        if kind < 0.5 and self._sent:
            return self._reply(self._recent(self._sent))
        if kind < 0.75:
            return self._timer()
        waits = list(self.definition.waits)
        if kind < 0.88 and waits:
            return Arrived(self._chance.choice(waits).name)
        if self.operators:
            return Operated(self._chance.choice(get_args(Verb)), "ann", "I looked")
        return self._timer()

    def _recent(self, sent: Sequence[Send]) -> Send:
        """Mostly what was sent last, at times something long over."""
        return sent[-1] if self._chance.random() < 0.7 else self._chance.choice(list(sent))

    def _reply(self, send: Send) -> Replied:
        step = self.definition.step(send.step)
        refusable = send.direction == "do" and bool(step.refused_on)
        # Mostly done, or no saga would ever get far.
        answers = ["done"] * 6 + ["refused"] * (2 if refusable else 0) + ["failed"]
        answer = self._chance.choice(answers)
        return Replied(send.step, send.direction, send.attempt, answer)  # type: ignore[arg-type]

    def _timer(self) -> Fired:
        timer = self.saga.timer
        if timer is not None and (self._chance.random() < 0.7 or not self._fired):
            self._fired.append(Fired(timer.step, timer.direction, timer.attempt, timer.kind))
            return self._fired[-1]
        if self._fired:
            return self._chance.choice(self._fired)
        return Fired("nowhere", "do", 1, "timeout")
