"""Where a saga stands: its status, the trail of steps it has entered, and the one timer it waits for. Frozen values.

Steps are named, never counted. What replies brought along is kept in the trail as it came; the engine never looks at
it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

from surefoot.events.commands import Direction
from surefoot.saga.stimulus import Arrived, Replied

Status = Literal["RUNNING", "COMPENSATING", "PAUSED", "COMPLETED", "COMPENSATED", "FAILED", "STUCK"]
"""COMPENSATED: all undone. FAILED: refused with nothing to undo. STUCK: in front of an operator; it still takes the
reply it waits for."""
ENDED: frozenset[Status] = frozenset({"COMPLETED", "COMPENSATED", "FAILED"})

StepState = Literal["AWAITED", "DONE", "REFUSED", "UNKNOWN", "LEFT", "UNDOING", "UNDONE"]
"""AWAITED: its command is out, or its event is waited for. UNKNOWN: out of attempts, it may have been done. LEFT: a
wait that was given up."""

TimerKind = Literal["timeout", "rest", "deadline"]
"""A command's answer is late; the next attempt is due; a wait is over."""


@dataclass(frozen=True, slots=True)
class StepRecord:
    """One step of the trail. `limit` and `undo_limit` are the attempts it has; an operator's retry grants more. Of a
    wait, `attempt` counts how often an operator had it wait once more."""

    name: str
    state: StepState
    attempt: int = 0
    limit: int = 0
    undo_attempt: int = 0
    undo_limit: int = 0
    result: Any = None


@dataclass(frozen=True, slots=True)
class Timer:
    """What fires, and after how long. It carries the attempt it belongs to: so a late one is told from a due one."""

    step: str
    direction: Direction
    attempt: int
    kind: TimerKind
    after: timedelta


@dataclass(frozen=True, slots=True)
class Instance:
    status: Status = "RUNNING"
    trail: tuple[StepRecord, ...] = ()
    choices: tuple[tuple[str, str], ...] = ()
    """Which path was taken at each branch."""
    timer: Timer | None = None
    arrived: tuple[tuple[str, Any], ...] = ()
    """Waits whose event came before the saga had reached them, and what it brought."""
    held: tuple[Replied | Arrived, ...] = ()
    """What came while it was paused, in order."""
    before_pause: Status | None = None
    timer_before_pause: Timer | None = None

    def record(self, step: str) -> StepRecord | None:
        return next((record for record in self.trail if record.name == step), None)

    @property
    def awaited(self) -> tuple[StepRecord, Direction] | None:
        """The step whose answer the saga waits for, and whether that of its do or its undo."""
        return awaited_in(self.status, self.trail)


def awaited_in(status: Status, trail: Sequence[StepRecord]) -> tuple[StepRecord, Direction] | None:
    undoing = next((record for record in trail if record.state == "UNDOING"), None)
    if undoing is not None:
        return undoing, "undo"
    if not trail or status in ENDED:
        return None
    # An outcome that stayed unknown leaves the saga stuck, and the answer may still come.
    return (trail[-1], "do") if trail[-1].state in ("AWAITED", "UNKNOWN") else None
