"""What the verifier says: that a saga is proved, or the shortest way to what is wrong with it. Frozen values."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from surefoot.errors import SurefootError
from surefoot.saga.instance import Status

Property = Literal[
    "ends",
    "kept",
    "undone",
    "reverse",
    "pivot",
    "in_order",
    "stale",
    "heard",
    "refused",
    "operable",
    "bounded",
    "decides",
]
MEANING: Mapping[Property, str] = {
    "ends": "Wherever it stands, its own clock moves it on; and it never comes back to where it stood.",
    "kept": "COMPLETED: every step on its way is done at its service, and none of them undone.",
    "undone": "COMPENSATED or FAILED: nothing is left done, and nothing can be done late.",
    "reverse": "Undos go backwards: none is sent before those of the later steps are finished.",
    "pivot": "Once the pivot is done, nothing is undone.",
    "in_order": "No step is commanded before all that come before it are done.",
    "stale": "A reply, an event or a timer that is not awaited moves nothing.",
    "heard": "A reply to any attempt of the awaited step counts, and so does an event that came early.",
    "refused": "A step that was refused is over: it is neither awaited any more nor undone.",
    "operable": "STUCK, an operator can retry and skip; PAUSED, they can resume.",
    "bounded": "Attempts are counted without a gap, and there are no more of them than the definition grants.",
    "decides": "The engine has an answer to everything that can happen.",
}


@dataclass(frozen=True, slots=True)
class Trouble:
    """A property that does not hold, and how."""

    property: Property
    sentence: str


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a counter-example: who says what to whom, and how the saga stands then ("" if nothing changed)."""

    what: str
    standing: str = ""


@dataclass(frozen=True, slots=True)
class Proved:
    """Every way has been walked. `ends`: how many of the states are at an end, or stuck, by their status."""

    states: int
    transitions: int
    seconds: float
    ends: Mapping[Status, int]


@dataclass(frozen=True, slots=True)
class Violated:
    """A property does not hold; `path` is a shortest way to where it does not, to be read top to bottom."""

    property: Property
    sentence: str
    path: tuple[Line, ...]
    states: int
    seconds: float


Verdict = Proved | Violated


class TooLarge(SurefootError):
    """The saga has more states than the verifier was allowed to look at."""
