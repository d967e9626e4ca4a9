"""The parts of a saga's definition: steps, waits, branches. Frozen data; what is checked of them is in `definition`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal

from surefoot.errors import SurefootError
from surefoot.events import EventData
from surefoot.retry import Retry

Make = Callable[..., EventData]
"""(context, results of steps by their types): the command, or the event, to send."""
Choose = Callable[..., str]
"""(context, results of steps by their types): the name of the path to take."""
WhenDead = Literal["undo", "wait"]
WhenLate = Literal["undo", "escalate"]
Reply = type[EventData]


class DefinitionError(SurefootError):
    """The saga's definition cannot be right."""


@dataclass(frozen=True, slots=True)
class Step:
    """Something a service does when it is commanded to, and undoes when it is commanded to."""

    name: str
    do: Make
    done_on: tuple[Reply, ...]
    refused_on: tuple[Reply, ...] = ()
    undo: Make | None = None
    undone_on: tuple[Reply, ...] = ()
    nothing_to_undo: bool = False
    """It has no effect that would have to be undone: a look, a message."""
    timeout: timedelta = timedelta(minutes=2)
    retry: Retry = field(default_factory=Retry)
    undo_retry: Retry = field(default_factory=Retry)
    when_dead: WhenDead = "undo"
    """What an unknown outcome means before the pivot: undo it with the others; or wait, STUCK, for a person or a
    replay."""
    unread_counts: bool = False
    """Whether a command that its service has not even read may time out."""
    handled_by: str | None = None
    """The consumer that reads the commands; the first word of their topic if it is not said."""
    pivot: bool = False
    after_pivot: bool = False

    @property
    def is_final(self) -> bool:
        """From its command on there is no way back."""
        return self.pivot or self.after_pivot


@dataclass(frozen=True, slots=True)
class Wait:
    """Waits for an event from outside, and not for ever."""

    name: str
    done_on: tuple[Reply, ...]
    deadline: timedelta
    when_late: WhenLate
    entity: str | None = None
    """The member of the event's data that has the saga's entity id; its key if it is not said."""
    tell: Make | None = None
    after_pivot: bool = False


@dataclass(frozen=True, slots=True)
class Branch:
    """Goes on by one of several paths, and after that with what follows the branch."""

    name: str
    by: Choose
    paths: Mapping[str, tuple["Node", ...]]


Node = Step | Wait | Branch
