"""One turn of the engine: the moves a saga makes from one standing to the next.

`Sheet` is the saga's standing as it changes, with what is to be sent, told, timed and noted: the only mutable thing of
this package, made for one decision and thrown away. `Turn` adds the moves. `engine` and `operating` decide which move a
stimulus means.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from surefoot.events.event import Direction
from surefoot.retry import Retry
from surefoot.saga.decision import Decision, Note, NoteKind, Send, Tell
from surefoot.saga.definition import Branch, Definition, DefinitionError, Node, Step, Wait
from surefoot.saga.instance import Instance, Status, StepRecord, Timer, awaited_in
from surefoot.saga.stimulus import Arrived, Replied


class Sheet:
    def __init__(self, definition: Definition, instance: Instance) -> None:
        self.definition = definition
        self.status: Status = instance.status
        self.timer: Timer | None = instance.timer
        self.before_pause = instance.before_pause
        self.timer_before_pause = instance.timer_before_pause
        self._trail = list(instance.trail)
        self._choices = dict(instance.choices)
        self._arrived = dict(instance.arrived)
        self._held = list(instance.held)
        self._sends: list[Send] = []
        self._tells: list[Tell] = []
        self._armed: Timer | None = None
        self._notes: list[Note] = []
        self._noted: Status = instance.status

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
        return awaited_in(self.status, self._trail)

    @property
    def rests(self) -> bool:
        """Whether the last attempt is over and the next is not due yet."""
        return self.timer is not None and self.timer.kind == "rest"

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
        """Change the status first, then note what changed it: a note shows the change since the note before it."""
        self._notes.append(Note(kind, step, direction, attempt, sentence, self._noted, self.status))
        self._noted = self.status

    def ignore(self, what: Replied | Arrived, why: str) -> None:
        if isinstance(what, Replied):
            self.note("IGNORED", what.step, what.direction, what.attempt, f"{what.answer}: {why}")
        else:
            self.note("IGNORED", what.wait, sentence=why)

    def hold(self, what: Replied | Arrived) -> None:
        if what in self._held:
            self.ignore(what, "it is held already")
            return
        self._held.append(what)
        if isinstance(what, Replied):
            self.note("HELD", what.step, what.direction, what.attempt, f"{what.answer}: {HELD_UNTIL}")
        else:
            self.note("HELD", what.wait, sentence=HELD_UNTIL)

    def release_held(self) -> Sequence[Replied | Arrived]:
        held, self._held = self._held, []
        return held

    # -- commands, timers, records -----------------------------------------------------------------------------------

    def arm(self, timer: Timer) -> None:
        self.timer = self._armed = timer

    def tell(self, tell: Tell) -> None:
        self._tells.append(tell)

    def _send(self, step: str, direction: Direction, attempt: int) -> None:
        self._sends.append(Send(step, direction, attempt))
        self.note("SENT", step, direction, attempt)
        self.arm(Timer(step, direction, attempt, "timeout", self.definition.step(step).timeout))

    def _enter(self, record: StepRecord) -> None:
        self._trail.append(record)

    def _change(self, record: StepRecord, **changes: Any) -> StepRecord:
        at = next(n for n, one in enumerate(self._trail) if one.name == record.name)
        self._trail[at] = changed = replace(self._trail[at], **changes)
        return changed


HELD_UNTIL = "it acts when the saga is resumed"


Chooser = Callable[[Branch, Instance], str]
"""Which path of a branch to take, for a saga that stands so."""
HALF = 0.5
"""In place of chance, when rests are worked out: a decision made twice is the same."""


class Turn(Sheet):
    def __init__(self, definition: Definition, instance: Instance, choose: Chooser) -> None:
        super().__init__(definition, instance)
        self._choose = choose

    # -- going on ----------------------------------------------------------------------------------------------------

    def advance(self) -> None:
        """Enter what comes next; behind the last step, the saga is completed."""
        while True:
            node = self._next()
            if node is None:
                self._end("COMPLETED", "COMPLETED")
                return
            if isinstance(node, Step):
                self._enter(StepRecord(node.name, "AWAITED", 1, node.retry.attempts))
                self._send(node.name, "do", 1)
                return
            if node.name not in self._arrived:
                self._enter(StepRecord(node.name, "AWAITED"))
                self.arm(Timer(node.name, "do", 0, "deadline", node.deadline))
                return
            self._enter(StepRecord(node.name, "DONE", result=self._arrived.pop(node.name)))
            self.note("ARRIVED", node.name, sentence="it had come before it was waited for")

    def take_as_done(
        self, record: StepRecord, result: Any, kind: NoteKind, attempt: int | None = None, sentence: str = ""
    ) -> None:
        """It is done: a service said so, its event came, or somebody took it as done. A saga that was stuck goes on."""
        self._change(record, state="DONE", result=result)
        self.status, self.timer = "RUNNING", None
        self.note(kind, record.name, "do", attempt, sentence)
        self.advance()

    def keep_arrival(self, event: Arrived) -> None:
        if event.wait in self._arrived:
            self.ignore(event, "it has come before")
            return
        self._arrived[event.wait] = event.result
        self.note("ARRIVED", event.wait, sentence="before it was waited for")

    def refused(self, record: StepRecord, attempt: int, why: str) -> None:
        """Not done, so it needs no undo; those before it do. Behind the pivot nothing is undone, whatever comes."""
        if self.definition.step(record.name).after_pivot:
            self.note("REFUSED", record.name, "do", attempt, why)
            self.outcome_unknown(record, f"{record.name} was refused, and is behind the pivot. {why}".strip())
            return
        self.take_as_refused(record, attempt, why)
        self.compensate(f"{record.name} was refused. {why}".strip())

    def take_as_refused(self, record: StepRecord, attempt: int, why: str) -> None:
        self._change(record, state="REFUSED")
        self.note("REFUSED", record.name, "do", attempt, why)

    def timed_out(self, record: StepRecord) -> None:
        self.note("TIMED_OUT", record.name, "do", record.attempt)
        if record.attempt < record.limit:
            self._rest(record.name, "do", record.attempt, self.definition.step(record.name).retry)
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
        wait = self._wait(record)
        self.note("LATE", record.name)
        if wait.tell is not None:
            self.tell(Tell(step=record.name))
        if wait.when_late == "undo":
            self._change(record, state="LEFT")
            self.compensate(f"{record.name} did not come in time.")
        else:
            self.stuck(record.name, "do", f"{record.name} did not come in time.")

    def wait_again(self, record: StepRecord) -> None:
        """Until the deadline once more. The count tells this timer from the one that has fired."""
        again = self._change(record, attempt=record.attempt + 1)
        self.arm(Timer(record.name, "do", again.attempt, "deadline", self._wait(record).deadline))

    # -- going back --------------------------------------------------------------------------------------------------

    def give_up(self, record: StepRecord) -> None:
        """What is awaited is not waited for any more: a step may be done all the same, a wait is left."""
        is_step = isinstance(self.definition.parts[record.name], Step)
        self._change(record, state="UNKNOWN" if is_step else "LEFT")

    def compensate(self, why: str) -> None:
        self.status, self.timer = "COMPENSATING", None
        self.note("COMPENSATING", sentence=why)
        self._undo_next()

    def take_as_undone(
        self, record: StepRecord, kind: NoteKind, attempt: int | None = None, sentence: str = ""
    ) -> None:
        self._change(record, state="UNDONE")
        self.status, self.timer = "COMPENSATING", None
        self.note(kind, record.name, "undo", attempt, sentence)
        self._undo_next()

    def undo_timed_out(self, record: StepRecord) -> None:
        self.note("TIMED_OUT", record.name, "undo", record.undo_attempt)
        self.undo_failed(record, "It did not answer.")

    def undo_failed(self, record: StepRecord, why: str) -> None:
        if record.undo_attempt < record.undo_limit:
            self._rest(record.name, "undo", record.undo_attempt, self.definition.step(record.name).undo_retry)
        else:
            made = record.undo_attempt
            self.stuck(record.name, "undo", f"{record.name} could not be undone in {made} attempts. {why}".strip())

    def stuck(self, step: str, direction: Direction, why: str) -> None:
        self.timer = None
        self._end("STUCK", "STUCK", step, direction, why)

    # -- attempts ----------------------------------------------------------------------------------------------------

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

    def _rest(self, step: str, direction: Direction, attempt: int, retry: Retry) -> None:
        # Beyond the attempts of the definition (an operator granted more) it rests as long as before the last of those.
        rest = retry.rest(max(1, min(attempt, retry.attempts - 1)), HALF)
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
            self.tell(Tell(status=status))

    def _wait(self, record: StepRecord) -> Wait:
        wait = self.definition.parts[record.name]
        assert isinstance(wait, Wait)
        return wait
