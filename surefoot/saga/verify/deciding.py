"""Asking the engine, once for each standing and stimulus, and judging its answer by itself.

Different worlds share a standing, and the engine knows nothing of the world: so its answers are kept and used again.
Where it asks which path a branch takes, it is asked once for each.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Generic, TypeVar

from surefoot.saga.decision import Decision
from surefoot.saga.definition import Branch, Definition
from surefoot.saga.engine import Decide
from surefoot.saga.instance import Instance
from surefoot.saga.operating import NotNow
from surefoot.saga.stimulus import Arrived, Fired, Operated, Replied, Stimulus, Verb
from surefoot.saga.turn import Chooser
from surefoot.saga.verify import judging
from surefoot.saga.verify.model import Limits, Service, replies, timers
from surefoot.saga.verify.verdict import Trouble

Begin = Callable[[Definition, Chooser], Decision]
T = TypeVar("T")
VERBS: tuple[Verb, ...] = ("pause", "resume", "retry", "skip", "compensate")


class Table(Generic[T]):
    """Gives equal things one number: comparing numbers is quick."""

    def __init__(self) -> None:
        self._numbers: dict[T, int] = {}
        self.things: list[T] = []

    def number(self, thing: T) -> int:
        found = self._numbers.setdefault(thing, len(self.things))
        if found == len(self.things):
            self.things.append(thing)
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """What the engine makes of a stimulus (None: the beginning), in a standing."""

    before: Instance
    stimulus: Stimulus | None
    decision: Decision
    standing: int
    """The number of the new standing."""
    trouble: Trouble | None


class Engine:
    """The engine under test, with its answers so far."""

    def __init__(self, definition: Definition, decide: Decide, begin: Begin, limits: Limits) -> None:
        self._definition = definition
        self._decide = decide
        self._begin = begin
        self._limits = limits
        self.standings = Table[Instance]()
        self.services = Table[Service]()
        self._answers: dict[tuple[int, Stimulus], tuple[Outcome, ...]] = {}
        self._by_service: dict[tuple[int, int], tuple[Outcome, ...]] = {}
        self._by_itself: dict[int, tuple[Outcome, ...]] = {}
        self._by_person: dict[int, tuple[Outcome, ...]] = {}
        self._standing: dict[int, Trouble | None] = {}

    def beginning(self) -> tuple[Outcome, ...]:
        return tuple(self._asked(Instance(), None, partial(self._begin, self._definition)))

    def by_service(self, standing: int, service: int) -> tuple[Outcome, ...]:
        """What comes of the replies and old timers of one service. What changes nothing is left out."""
        key = (standing, service)
        if key not in self._by_service:
            self._by_service[key] = tuple(self._of_service(standing, self.services.things[service]))
        return self._by_service[key]

    def by_itself(self, standing: int) -> tuple[Outcome, ...]:
        """What comes of the armed timer, of events that are waited for, and of the timers of waits."""
        if standing not in self._by_itself:
            self._by_itself[standing] = tuple(self._of_itself(standing))
        return self._by_itself[standing]

    def by_person(self, standing: int) -> tuple[Outcome, ...]:
        if standing not in self._by_person:
            asked = [Operated(verb, "an operator", "") for verb in VERBS]
            self._by_person[standing] = tuple(outcome for one in asked for outcome in self._outcomes(standing, one))
        return self._by_person[standing]

    def trouble_of(self, standing: int) -> Trouble | None:
        """What is wrong with a standing, whatever the world is like."""
        if standing not in self._standing:
            instance = self.standings.things[standing]
            moves = instance.status in ("RUNNING", "COMPENSATING") and any(
                outcome.standing != standing
                for outcome in self.by_itself(standing)
                if isinstance(outcome.stimulus, Fired) and judging.is_armed(instance, outcome.stimulus)
            )
            verbs = {
                outcome.stimulus.verb
                for outcome in (self.by_person(standing) if instance.status in ("STUCK", "PAUSED") else ())
                if isinstance(outcome.stimulus, Operated) and outcome.standing != standing
            }
            self._standing[standing] = judging.standing(instance, moves, verbs)
        return self._standing[standing]

    def _of_service(self, standing: int, service: Service) -> Iterator[Outcome]:
        instance = self.standings.things[standing]
        if self._may_come(instance, service.step):
            for reply in replies(service):
                # The same answer may be given twice, by two events.
                yield from self._outcomes(standing, replace(reply, event_id="2") if reply in instance.held else reply)
        if not instance.held:  # what is held makes no difference to a timer that is not even armed
            for timer in timers(service):
                if not judging.is_armed(instance, timer):
                    yield from self._outcomes(standing, timer)

    def _of_itself(self, standing: int) -> Iterator[Outcome]:
        instance = self.standings.things[standing]
        if instance.timer is not None:
            armed = instance.timer
            yield from self._outcomes(standing, Fired(armed.step, armed.direction, armed.attempt, armed.kind))
        for wait in self._definition.waits:
            if self._may_come(instance, wait.name):
                yield from self._outcomes(standing, Arrived(wait.name))
            record = instance.record(wait.name)
            for again in range(0 if record is None else record.attempt + 1):
                deadline = Fired(wait.name, "do", again, "deadline")
                if not judging.is_armed(instance, deadline):
                    yield from self._outcomes(standing, deadline)

    def _may_come(self, instance: Instance, step: str) -> bool:
        """While it is paused: so many stimuli about the step awaited, or one about another. When the saga is resumed,
        the engine takes them one by one, as if they came then; and what it makes of one that is not awaited (nothing)
        is looked at in every other standing. So such a one in front of others would tell nothing new."""
        if instance.status != "PAUSED" or not instance.held:
            return True
        awaited = instance.awaited
        if len(instance.held) >= self._limits.held or awaited is None or awaited[0].name != step:
            return False
        return all(one.step == step for one in instance.held if isinstance(one, Replied))

    def _outcomes(self, standing: int, stimulus: Stimulus) -> tuple[Outcome, ...]:
        key = (standing, stimulus)
        if key not in self._answers:
            instance = self.standings.things[standing]
            asked = self._asked(instance, stimulus, partial(self._decide, self._definition, instance, stimulus))
            self._answers[key] = tuple(asked)
        return self._answers[key]

    def _asked(
        self, instance: Instance, stimulus: Stimulus | None, ask: Callable[[Chooser], Decision]
    ) -> Iterator[Outcome]:
        """One outcome for each way that branches may go."""
        scripts: list[tuple[str, ...]] = [()]
        while scripts:
            script = scripts.pop()
            try:
                decision = ask(_following(script))
            except _Fork as fork:
                scripts.extend((*script, label) for label in reversed(fork.labels))
                continue
            except NotNow:
                continue
            except Exception as error:
                trouble: Trouble | None = Trouble("decides", f"The engine raises {type(error).__name__}: {error}")
                decision = Decision(instance)
            else:
                trouble = judging.answer(instance, stimulus, decision)
            changed = decision.sends or decision.instance != instance
            if stimulus is None or trouble is not None or changed:
                yield Outcome(instance, stimulus, decision, self.standings.number(decision.instance), trouble)


class _Fork(Exception):
    def __init__(self, labels: tuple[str, ...]) -> None:
        self.labels = labels


def _following(script: tuple[str, ...]) -> Chooser:
    left = list(script)

    def choose(branch: Branch, standing: Instance) -> str:
        if not left:
            raise _Fork(tuple(branch.paths))
        return left.pop(0)

    return choose
