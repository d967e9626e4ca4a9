"""One turn of the engine: a saga on its way from one standing to the next, and what is to be done on the way.

The only mutable thing in here; it is made for one decision and thrown away.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from surefoot.events.commands import Direction
from surefoot.saga.decision import Decision, Note, NoteKind, Send, Tell
from surefoot.saga.definition import Definition
from surefoot.saga.instance import Instance, Status, StepRecord, Timer
from surefoot.saga.parts import Branch, DefinitionError, Node, Step, Wait
from surefoot.saga.stimulus import Arrived, Replied

Chooser = Callable[[Branch, Instance], str]
"""Which path of a branch to take, for a saga that stands so."""
HALF = 0.5
"""In place of chance, when rests are worked out: a decision made twice is the same."""


class Turn:
    def __init__(self, definition: Definition, instance: Instance, choose: Chooser) -> None:
        self.definition = definition
        self._before = instance
        self._choose = choose
        self.status: Status = instance.status
        self.timer: Timer | None = instance.timer
        self._trail = list(instance.trail)
        self._choices = dict(instance.choices)
        self._arrived = dict(instance.arrived)
        self._held = list(instance.held)
        self.before_pause = instance.before_pause
        self.timer_before_pause = instance.timer_before_pause
        self._sends: list[Send] = []
        self._tells: list[Tell] = []
        self._armed: Timer | None = None
        self._notes: list[Note] = []

    # -- looking -----------------------------------------------------------------------------------------------------

    def standing(self) -> Instance:
        return Instance(
            self.status,
            tuple(self._trail),
            tuple(self._choices.items()),
            self.timer,
            tuple(self._arrived.items()),
            tuple(self._held),
            self.before_pause,
            self.timer_before_pause,
        )

    @property
    def awaited(self) -> tuple[StepRecord, Direction] | None:
        return self.standing().awaited

    def record(self, name: str) -> StepRecord | None:
        return next((record for record in self._trail if record.name == name), None)

    @property
    def is_final(self) -> bool:
        """Whether the pivot's command has been sent: from then on nothing is undone, unless the pivot is refused."""
        return any(
            isinstance(node, Step) and node.is_final
            for node in (self.definition.parts[record.name] for record in self._trail)
        )

    def decision(self) -> Decision:
        armed = self._armed if self._armed is not None and self._armed == self.timer else None
        return Decision(self.standing(), tuple(self._sends), tuple(self._tells), armed, tuple(self._notes))

    # -- noting ------------------------------------------------------------------------------------------------------

    def note(
        self,
        kind: NoteKind,
        step: str | None = None,
        direction: Direction | None = None,
        attempt: int | None = None,
        sentence: str = "",
    ) -> None:
        self._notes.append(Note(kind, step, direction, attempt, sentence, self._before.status, self.status))

    def ignore(self, what: Replied | Arrived, why: str) -> None:
        if isinstance(what, Replied):
            self.note("IGNORED", what.step, what.direction, what.attempt, f"{what.answer}: {why}")
        else:
            self.note("IGNORED", what.wait, sentence=why)

    def hold(self, what: Replied | Arrived) -> None:
        self._held.append(what)
        step = what.step if isinstance(what, Replied) else what.wait
        self.note("HELD", step, sentence="it acts when the saga is resumed")

    def release_held(self) -> Sequence[Replied | Arrived]:
        held, self._held = self._held, []
        return held

    # -- going on ----------------------------------------------------------------------------------------------------

    def advance(self) -> None:
        """Enter what comes next; behind the last step, the saga is completed."""
        while True:
            node = self._next()
            if node is None:
                self._end("COMPLETED", "COMPLETED")
                return
            if isinstance(node, Step):
                self._trail.append(StepRecord(node.name, "AWAITED", 1, node.retry.attempts))
                self._send(node.name, "do", 1)
                return
            if node.name not in self._arrived:
                self._trail.append(StepRecord(node.name, "AWAITED"))
                self.arm(Timer(node.name, "do", 0, "deadline", node.deadline))
                return
            self._trail.append(StepRecord(node.name, "DONE", result=self._arrived.pop(node.name)))
            self.note("ARRIVED", node.name, sentence="it had come before it was waited for")

    def done(self, record: StepRecord, attempt: int, result: Any) -> None:
        self.note_done("DONE", record, attempt)
        self.take_as_done(record, result)

    def note_done(self, kind: NoteKind, record: StepRecord, attempt: int | None, sentence: str = "") -> None:
        self.note(kind, record.name, "do", attempt, sentence)

    def take_as_done(self, record: StepRecord, result: Any) -> None:
        self._change(record, state="DONE", result=result)
        self.status, self.timer = "RUNNING", None
        self.advance()

    def arrival(self, record: StepRecord, result: Any) -> None:
        self.note("ARRIVED", record.name)
        self.take_as_done(record, result)

    def keep_arrival(self, event: Arrived) -> None:
        if event.wait in self._arrived:
            self.ignore(event, "it has come before")
            return
        self._arrived[event.wait] = event.result
        self.note("ARRIVED", event.wait, sentence="before it was waited for")

    def refused(self, record: StepRecord, attempt: int, why: str) -> None:
        """Not done, so it needs no undo; those before it do."""
        self._change(record, state="REFUSED")
        self.note("REFUSED", record.name, "do", attempt, why)
        self.compensate(f"{record.name} was refused. {why}".strip())

    def timed_out(self, record: StepRecord) -> None:
        step = self.definition.step(record.name)
        self.note("TIMED_OUT", record.name, "do", record.attempt)
        if record.attempt < record.limit:
            self._rest(
                record.name, "do", record.attempt, step.retry.rest(min(record.attempt, step.retry.attempts - 1), HALF)
            )
        else:
            self.outcome_unknown(record, f"{record.name} did not answer any of {record.attempt} attempts.")

    def outcome_unknown(self, record: StepRecord, why: str) -> None:
        """Maybe done: so it is undone too; where that cannot be, a person decides."""
        step = self.definition.step(record.name)
        self._change(record, state="UNKNOWN")
        if step.is_final or step.when_dead == "wait":
            self.stuck(record.name, "do", why)
        else:
            self.compensate(why)

    def late(self, record: StepRecord) -> None:
        wait = self.definition.parts[record.name]
        assert isinstance(wait, Wait)
        self.note("LATE", record.name)
        if wait.when_late == "undo":
            self._change(record, state="LEFT")
            self.compensate(f"{record.name} did not come in time.")
            return
        if wait.tell is not None:
            self._tells.append(Tell(step=record.name))
        self.stuck(record.name, "do", f"{record.name} did not come in time.")

    def wait_again(self, record: StepRecord) -> None:
        wait = self.definition.parts[record.name]
        assert isinstance(wait, Wait)
        self.status = "RUNNING"
        self.arm(Timer(record.name, "do", 0, "deadline", wait.deadline))

    # -- going back --------------------------------------------------------------------------------------------------

    def give_up(self, record: StepRecord) -> None:
        """What is awaited is not waited for any more: a step may be done all the same, a wait is left."""
        is_step = isinstance(self.definition.parts[record.name], Step)
        self._change(record, state="UNKNOWN" if is_step else "LEFT")

    def compensate(self, why: str) -> None:
        self.status, self.timer = "COMPENSATING", None
        self.note("COMPENSATING", sentence=why)
        self._undo_next()

    def undone(self, record: StepRecord, attempt: int | None) -> None:
        self.note("UNDONE", record.name, "undo", attempt)
        self.take_as_undone(record)

    def take_as_undone(self, record: StepRecord) -> None:
        self._change(record, state="UNDONE")
        self.status, self.timer = "COMPENSATING", None
        self._undo_next()

    def undo_timed_out(self, record: StepRecord) -> None:
        self.note("TIMED_OUT", record.name, "undo", record.undo_attempt)
        self.undo_failed(record, "It did not answer.")

    def undo_failed(self, record: StepRecord, why: str) -> None:
        step = self.definition.step(record.name)
        if record.undo_attempt < record.undo_limit:
            rest = step.undo_retry.rest(min(record.undo_attempt, step.undo_retry.attempts - 1), HALF)
            self._rest(record.name, "undo", record.undo_attempt, rest)
        else:
            made = record.undo_attempt
            self.stuck(record.name, "undo", f"{record.name} could not be undone in {made} attempts. {why}".strip())

    def stuck(self, step: str, direction: Direction, why: str) -> None:
        self.timer = None
        self._end("STUCK", "STUCK", step, direction, why)

    # -- commands and timers -----------------------------------------------------------------------------------------

    def send_again(self, record: StepRecord, direction: Direction) -> None:
        """The next attempt; an operator's may be beyond those that the definition grants."""
        if direction == "do":
            attempt = record.attempt + 1
            self._change(record, state="AWAITED", attempt=attempt, limit=max(record.limit, attempt))
        else:
            attempt = record.undo_attempt + 1
            self._change(record, undo_attempt=attempt, undo_limit=max(record.undo_limit, attempt))
        self._send(record.name, direction, attempt)

    def grant(self, record: StepRecord, direction: Direction) -> StepRecord:
        """As many attempts again as the definition gives."""
        step = self.definition.step(record.name)
        if direction == "do":
            return self._change(record, limit=record.attempt + step.retry.attempts)
        return self._change(record, undo_limit=record.undo_attempt + step.undo_retry.attempts)

    def arm(self, timer: Timer) -> None:
        self.timer = self._armed = timer

    def _send(self, step: str, direction: Direction, attempt: int) -> None:
        self._sends.append(Send(step, direction, attempt))
        self.note("SENT", step, direction, attempt)
        self.arm(Timer(step, direction, attempt, "timeout", self.definition.step(step).timeout))

    def _rest(self, step: str, direction: Direction, attempt: int, rest: timedelta | None) -> None:
        self.arm(Timer(step, direction, attempt, "rest", rest or timedelta(seconds=1)))

    # -- the way through ---------------------------------------------------------------------------------------------

    def _next(self) -> Step | Wait | None:
        """The first on our way that has not been entered."""
        entered = {record.name for record in self._trail}
        return next((node for node in self._way(self.definition.nodes) if node.name not in entered), None)

    def _way(self, nodes: Sequence[Node]) -> Iterator[Step | Wait]:
        for node in nodes:
            if isinstance(node, Branch):
                yield from self._way(node.paths[self._chosen(node)])
            else:
                yield node

    def _chosen(self, branch: Branch) -> str:
        if branch.name not in self._choices:
            label = self._choose(branch, self.standing())
            if label not in branch.paths:
                known = ", ".join(branch.paths)
                raise DefinitionError(
                    f"The choice of {branch.name} is {label!r}, which is none of its paths ({known})."
                )
            self._choices[branch.name] = label
            self.note("CHOSEN", branch.name, sentence=label)
        return self._choices[branch.name]

    def _undo_next(self) -> None:
        for record in reversed(self._trail):
            node = self.definition.parts[record.name]
            if record.state in ("DONE", "UNKNOWN") and isinstance(node, Step) and node.undo is not None:
                self._change(record, state="UNDOING", undo_attempt=1, undo_limit=node.undo_retry.attempts)
                self._send(record.name, "undo", 1)
                return
        if any(record.state == "UNDONE" for record in self._trail):
            self._end("COMPENSATED", "COMPENSATED")
        else:
            self._end("FAILED", "ENDED_FAILED")

    def _end(
        self,
        status: Status,
        kind: NoteKind,
        step: str | None = None,
        direction: Direction | None = None,
        sentence: str = "",
    ) -> None:
        self.status = status
        self.note(kind, step, direction, sentence=sentence)
        if status in self.definition.tells:
            self._tells.append(Tell(status=status))

    def _change(self, record: StepRecord, **changes: Any) -> StepRecord:
        at = next(n for n, one in enumerate(self._trail) if one.name == record.name)
        self._trail[at] = changed = replace(self._trail[at], **changes)
        return changed
