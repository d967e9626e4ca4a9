"""What can happen to a saga. Frozen values; the engine decides what each means."""

from dataclasses import dataclass
from typing import Any, Literal

from surefoot.events.event import Direction

Answer = Literal["done", "refused", "failed"]
"""refused: it was not done. failed: nobody knows whether it was done."""


@dataclass(frozen=True, slots=True)
class Replied:
    """A service has answered an attempt of a step."""

    step: str
    direction: Direction
    attempt: int
    answer: Answer
    result: Any = None
    why: str = ""
    event_id: str = ""


@dataclass(frozen=True, slots=True)
class Arrived:
    """An event that a wait is for."""

    wait: str
    result: Any = None
    event_id: str = ""


@dataclass(frozen=True, slots=True)
class Fired:
    """A timer is due, and its runtime has made sure that silence means silence (nothing lags, nothing is parked)."""

    step: str
    direction: Direction
    attempt: int
    kind: Literal["timeout", "rest", "deadline"]


@dataclass(frozen=True, slots=True)
class Broken:
    """A timer counts, and the saga's own functions fail on what follows from it: only a person can go on."""

    step: str
    direction: Direction
    attempt: int
    kind: Literal["timeout", "rest", "deadline"]
    why: str


Verb = Literal["pause", "resume", "retry", "skip", "compensate"]


@dataclass(frozen=True, slots=True)
class Operated:
    """A person decided. `step`, if it is given, must be the one awaited: they looked before somebody else acted."""

    verb: Verb
    by: str
    why: str
    step: str | None = None
    result: Any = None


Stimulus = Replied | Arrived | Fired | Broken | Operated
