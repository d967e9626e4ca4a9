"""Try a saga without a broker or a database: given this, expect that command; given that reply, expect the next.

    kit = SagaKit(order_placement)
    kit.given(PlacementRequested(order_id="o-1"))
    kit.expect(ReserveStock(order_id="o-1"))
    kit.refuse(StockRejected(order_id="o-1"))
    kit.expect_ended("FAILED")

The real engine decides, and the saga's own functions make the commands. An expectation is about the last thing that
happened, and says in a sentence what was expected and what came instead. Nothing sleeps.
"""

from collections.abc import Sequence
from typing import Any

from surefoot.events import EventData
from surefoot.saga import Saga, Status
from surefoot.saga.decision import Note
from surefoot.saga.instance import ENDED
from surefoot.saga.operating import result_for_skip
from surefoot.saga.stimulus import Operated, Stimulus, Verb
from surefoot.testing.consumer_records import KitMisuse
from surefoot.testing.saga_answers import (
    answers_of,
    arrival_of,
    awaited_step,
    awaited_wait,
    failure,
    meaning,
    reply_with,
    timer_of,
)
from surefoot.testing.saga_run import Run

__all__ = ["KitMisuse", "SagaKit"]


class Operator:
    def __init__(self, run: Run) -> None:
        self._run = run

    def pause(self, by: str, why: str) -> None:
        self._act("pause", by, why)

    def resume(self, by: str, why: str) -> None:
        self._act("resume", by, why)

    def retry(self, by: str, why: str) -> None:
        """Send the command awaited once more; or let a wait that was late wait once more."""
        self._act("retry", by, why)

    def skip(self, by: str, why: str, *, result: EventData | None = None) -> None:
        """Take what is awaited as done with this result; or, while the saga is undone, as undone."""
        awaited, stored = self._run.saga.awaited, None
        if awaited is not None and awaited[1] == "do":
            stored = result_for_skip(self._run.definition, awaited[0].name, result)
        self._act("skip", by, why, stored)

    def compensate(self, by: str, why: str) -> None:
        self._act("compensate", by, why)

    def _act(self, verb: Verb, by: str, why: str, result: Any = None) -> None:
        self._run.take(Operated(verb, by, why, result=result))


class SagaKit:
    def __init__(self, saga: Saga) -> None:
        self._definition = saga.definition
        self._run: Run | None = None
        self._last: Stimulus | None = None

    # -- what happens ------------------------------------------------------------------------------------------------

    def given(self, data: EventData) -> None:
        """The event that starts the saga. If its `starts_when` says no, none is started: see `started`."""
        if self._run is not None:
            raise KitMisuse("This kit runs a saga already: take a new kit for another one.")
        if not isinstance(data, self._definition.starts_on):
            wanted = self._definition.starts_on.__name__
            raise KitMisuse(f"{self._definition.name} starts on {wanted}, not on {type(data).__name__}.")
        if self._definition.starts_when is None or self._definition.starts_when(data):
            self._run = Run(self._definition, data)

    def reply(self, data: EventData, *, step: str | None = None, attempt: int | None = None) -> None:
        """A service answers: the step awaited, unless another is named; its last attempt, unless another is named."""
        self._take(reply_with(self._running, data, step, attempt))

    def refuse(self, data: EventData) -> None:
        """The service awaited refuses: it has not done it."""
        step, direction = awaited_step(self._running)
        if meaning(step, direction, data) != "refused":
            raise KitMisuse(f"{type(data).__name__} is no refusal of {step.name}: {answers_of(step, direction)}.")
        self.reply(data)

    def fail(self, why: str = "") -> None:
        """The command awaited died in its service: nobody knows whether it was done."""
        self._take(failure(self._running, why))

    def time_out(self) -> None:
        """The step awaited does not answer in time. If it has attempts left, the rest passes and it is sent again."""
        awaited_step(self._running)
        self._take(timer_of(self._running))
        timer = self._running.saga.timer
        if timer is not None and timer.kind == "rest":
            self._take(timer_of(self._running))

    def never_answers(self) -> None:
        """The step awaited answers none of its attempts, until the saga turns to something else."""
        step, direction = awaited_step(self._running)
        self.time_out()
        while (timer := self._running.saga.timer) is not None and (timer.step, timer.direction) == (
            step.name,
            direction,
        ):
            self.time_out()

    def arrives(self, data: EventData) -> None:
        """An event from outside comes that the saga waits for, or is going to wait for."""
        self._take(arrival_of(self._running, data))

    def late(self) -> None:
        """What is waited for does not come before the deadline."""
        awaited_wait(self._running)
        self._take(timer_of(self._running))

    def repeat(self) -> None:
        """The last reply, event or timer comes once more."""
        if self._last is None:
            raise KitMisuse("Nothing has come yet that could be repeated.")
        self._take(self._last)

    @property
    def operator(self) -> Operator:
        """A person: pause, resume, retry, skip, compensate."""
        return Operator(self._running)

    # -- what is expected --------------------------------------------------------------------------------------------

    def expect(self, *commands: EventData) -> None:
        """The last thing that happened made the saga send exactly these."""
        self._same("to be sent", commands, self.sent)

    def expect_told(self, *events: EventData) -> None:
        """The last thing that happened made the saga publish exactly these events, which nobody answers."""
        self._same("to be told", events, self._running.told)

    def expect_nothing(self) -> None:
        """The last thing that happened made the saga send nothing and tell nobody."""
        self.expect()
        self.expect_told()

    def expect_ended(self, status: Status) -> None:
        if status not in ENDED:
            raise KitMisuse(f"{status} is no end; ends are {', '.join(sorted(ENDED))}. For STUCK, use expect_stuck.")
        self._must(self.status == status, f"to have ended {status}")

    def expect_stuck(self, step: str | None = None) -> None:
        """It is in front of an operator; over this step, if one is named."""
        over = "" if step is None else f" over {step}"
        self._must(self.status == "STUCK" and (step is None or self._awaits(step)), f"to be stuck{over}")

    def expect_waiting(self, wait: str) -> None:
        """It waits for this event from outside."""
        self._must(self.status == "RUNNING" and self._awaits(wait), f"to wait for {wait}")

    # -- how it stands -----------------------------------------------------------------------------------------------

    @property
    def started(self) -> bool:
        return self._run is not None

    @property
    def status(self) -> Status:
        return self._running.saga.status

    @property
    def sent(self) -> list[EventData]:
        """The commands that the last thing that happened made it send."""
        return [one.command for one in self._running.sent]

    @property
    def history(self) -> Sequence[Note]:
        """What an operator would read, from the beginning."""
        return tuple(self._running.history)

    def __repr__(self) -> str:
        return f"<SagaKit {self._definition.name}: {self._standing() if self.started else 'Nothing has started.'}>"

    @property
    def _running(self) -> Run:
        if self._run is None:
            raise KitMisuse("No saga has started: give the kit the event that starts it.")
        return self._run

    def _take(self, stimulus: Stimulus) -> None:
        self._running.take(stimulus)
        self._last = stimulus

    def _awaits(self, name: str) -> bool:
        awaited = self._running.saga.awaited
        return awaited is not None and awaited[0].name == name

    def _same(self, how: str, expected: Sequence[EventData], came: Sequence[EventData]) -> None:
        if list(expected) != list(came):
            raise AssertionError(f"Expected {_listed(expected)} {how}, and it was {_listed(came)}. {self._standing()}")

    def _must(self, holds: bool, expected: str) -> None:
        if not holds:
            raise AssertionError(f"Expected the saga {expected}. {self._standing()}")

    def _standing(self) -> str:
        awaited, last = self._running.saga.awaited, self._running.history[-1]
        awaits = "" if awaited is None else f" and awaits the {awaited[1]} of {awaited[0].name}"
        noted = " ".join(word for word in (last.kind, last.step, last.sentence) if word)
        return f"It is {self.status}{awaits}. Last in its history: {noted}"


def _listed(data: Sequence[EventData]) -> str:
    return ", ".join(repr(one) for one in data) or "nothing"
