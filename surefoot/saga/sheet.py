"""What a turn works on: the saga's standing as it changes, and what is to be sent, told, timed and noted.

The only mutable thing in this room; it is made for one decision and thrown away.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from surefoot.events.commands import Direction
from surefoot.saga.decision import Decision, Note, NoteKind, Send, Tell
from surefoot.saga.definition import Definition
from surefoot.saga.instance import Instance, Status, StepRecord, Timer, awaited_in
from surefoot.saga.parts import Step
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
