"""Commands: events that ask for something, and name the saga, the step and the direction they belong to.

The names travel as CloudEvents extensions, so that a service in any language can take part: `sagaid`, `sagastep`,
`sagadirection` (do or undo) and `sagaattempt`. A reply carries the command's id as its causation id.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, cast, get_args

from surefoot.errors import InvalidEvent
from surefoot.events.event import Event
from surefoot.events.event_type import EventData

Direction = Literal["do", "undo"]
SAGA, STEP, DIRECTION, ATTEMPT = "sagaid", "sagastep", "sagadirection", "sagaattempt"
MAX_NAME = 200
_ATTEMPT = re.compile("[1-9][0-9]{0,5}")


@dataclass(frozen=True, slots=True)
class Command:
    """Which step of which saga a command belongs to. Saga, step and direction identify it; attempts repeat it."""

    saga_id: str
    step: str
    direction: Direction = "do"
    attempt: int = 1

    def extensions(self) -> Mapping[str, str]:
        """The attributes to send it with."""
        return {SAGA: self.saga_id, STEP: self.step, DIRECTION: self.direction, ATTEMPT: str(self.attempt)}


def command_of(event: Event[EventData]) -> Command | None:
    """What the event says of itself as a command; None if it is none. Raises InvalidEvent if it is half of one."""
    given = event.extensions
    saga_id, step, direction = given.get(SAGA), given.get(STEP), given.get(DIRECTION)
    if saga_id is None and step is None and direction is None:
        return None
    attempt = given.get(ATTEMPT, "1")
    if not saga_id or not step or len(saga_id) > MAX_NAME or len(step) > MAX_NAME:
        raise InvalidEvent(
            f"The command {event.type} does not say which step of which saga it is for: it needs {SAGA} and {STEP}, "
            f"of 1 to {MAX_NAME} characters."
        )
    if direction not in get_args(Direction) or not _ATTEMPT.fullmatch(attempt):
        raise InvalidEvent(
            f"The command {event.type} needs {DIRECTION} to be do or undo, and {ATTEMPT} to be a number above zero."
        )
    return Command(saga_id, step, cast(Direction, direction), int(attempt))
