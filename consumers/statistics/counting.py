"""What a record counts as: which views it belongs to, under which name, in which minute.

Every record counts as something and none raises: what is no event is counted as just that. Memory is bounded, whatever
is sent: names are cut, a minute has so many of them and no more, and a time that lies ahead is taken as now.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Literal, NamedTuple

from consumers.statistics import KEPT
from surefoot.events import decode
from surefoot.events.event_type import DEAD_LETTER_SUFFIX

View = Literal["events", "dead-letters", "dead-letter-reasons", "sagas"]
"""A question people ask, and the end of the path that answers it."""

MINUTE = timedelta(minutes=1)

NOT_AN_EVENT = "not_an_event"
NO_REASON = "no_reason"
OTHERS = "others"
MAX_NAMES = 500
"""Names in a minute of a view. What comes under a further one is counted as `others`."""
MAX_NAME_CHARACTERS = 200

CONSUMER_HEADER = "surefoot-consumer"
REASON_HEADER = "surefoot-reason"
SAGA_PREFIX = "saga."


class Counted(NamedTuple):
    """One more of `name` in a view."""

    view: View
    name: str


def counted(topic: str, headers: Sequence[tuple[str, bytes | None]], value: bytes | None) -> tuple[Counted, ...]:
    """What this record counts as. A dead letter is no new event, and is counted in its own views alone."""
    if topic.endswith(DEAD_LETTER_SUFFIX):
        consumer = _text(headers, CONSUMER_HEADER) or NOT_AN_EVENT
        reason = _text(headers, REASON_HEADER) or NO_REASON
        return Counted("dead-letters", consumer), Counted("dead-letter-reasons", reason)
    name = _type_of(headers, value)
    if name.startswith(SAGA_PREFIX):
        return Counted("events", name), Counted("sagas", name)
    return (Counted("events", name),)


def add(counts: dict[str, int], name: str) -> None:
    """Count one more of a name in a minute."""
    if name not in counts and len(counts) >= MAX_NAMES:
        name = OTHERS
    counts[name] = counts.get(name, 0) + 1


def moment(timestamp_s: float | None, now_s: float) -> float | None:
    """The time a record is counted at, in seconds since 1970; None if that is longer ago than anything is kept.

    A producer whose clock is ahead must not fill minutes to come: they would stay until their time has passed. A record
    without a time is as new as its arrival."""
    if timestamp_s is None or timestamp_s < 0 or timestamp_s > now_s:
        return now_s
    return timestamp_s if minute(timestamp_s) > oldest(now_s) else None


def minute(timestamp_s: float) -> int:
    """The start of the minute, in seconds since 1970."""
    length = int(MINUTE.total_seconds())
    return int(timestamp_s) // length * length


def oldest(now_s: float) -> int:
    """The newest minute that is no longer shown."""
    return minute(now_s) - int(KEPT.total_seconds())


def _type_of(headers: Sequence[tuple[str, bytes | None]], value: bytes | None) -> str:
    # Not BadRecord alone: whatever a record does to its reader, Faust would lose count of all those behind it.
    try:
        return decode(headers, value).attributes["type"][:MAX_NAME_CHARACTERS]
    except Exception:
        return NOT_AN_EVENT


def _text(headers: Sequence[tuple[str, bytes | None]], name: str) -> str | None:
    """The first header of that name as text; None if there is none, or it is empty or not UTF-8."""
    found = next((value for header, value in headers if header == name and value), None)
    if found is None:
        return None
    try:
        return found.decode("utf-8")[:MAX_NAME_CHARACTERS]
    except UnicodeDecodeError:
        return None
