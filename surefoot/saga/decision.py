"""What the engine decides: the saga as it stands then, commands to send, events to tell, a timer to set, and what to
write into its history. Frozen values; the runtime carries them out in one transaction.
"""

from dataclasses import dataclass
from typing import Literal

from surefoot.events.event import Direction
from surefoot.saga.instance import Instance, Status, Timer

NoteKind = Literal[
    "STARTED",
    "SENT",
    "DONE",
    "REFUSED",
    "FAILED",
    "TIMED_OUT",
    "ARRIVED",
    "CHOSEN",
    "LATE",
    "COMPENSATING",
    "UNDONE",
    "STUCK",
    "COMPLETED",
    "COMPENSATED",
    "ENDED_FAILED",
    "PAUSED",
    "RESUMED",
    "RETRIED",
    "SKIPPED",
    "HELD",
    "IGNORED",
]


@dataclass(frozen=True, slots=True)
class Send:
    """A command: the step's do or undo."""

    step: str
    direction: Direction
    attempt: int


@dataclass(frozen=True, slots=True)
class Tell:
    """An event that nobody answers: that a wait is late (`step`), or that the saga has reached a status."""

    status: Status | None = None
    step: str | None = None


@dataclass(frozen=True, slots=True)
class Note:
    """One line of the history. `before` and `after` are the statuses around what it notes: the notes of a decision are
    a chain from the status the saga had to the one it has now."""

    kind: NoteKind
    step: str | None = None
    direction: Direction | None = None
    attempt: int | None = None
    sentence: str = ""
    before: Status = "RUNNING"
    after: Status = "RUNNING"


@dataclass(frozen=True, slots=True)
class Decision:
    instance: Instance
    sends: tuple[Send, ...] = ()
    tells: tuple[Tell, ...] = ()
    arm: Timer | None = None
    """Set this timer now. If it is None, the timer is as `instance.timer` says: gone, or as it was set before."""
    notes: tuple[Note, ...] = ()
