"""What people are told about dead letters, in words. Pure."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from surefoot.events.text import printable
from surefoot.telemetry.alerts import Alert

MOST_TOLD = 20
"""New groups told of one by one in a round: a flood of them is one sentence."""
QUOTED = 300
BELOW = 0.8
"""Few are open again when they are below this share of many: a count that hovers around the limit is told of once."""


@dataclass(frozen=True, slots=True)
class Group:
    fingerprint: str
    consumer: str
    event_type: str | None
    reason: str
    error_type: str
    sentence: str
    open: int
    settled: int
    """Its letters that were replayed, discarded or superseded earlier: it is back."""


@dataclass(frozen=True, slots=True)
class PastRetention:
    """Open letters of a consumer that are older than letters are kept."""

    consumer: str
    count: int
    oldest_id: str
    oldest_at: datetime


def new_groups(groups: Sequence[Group]) -> list[Alert]:
    alerts = [_new_group(group) for group in groups[:MOST_TOLD]]
    if len(groups) > MOST_TOLD:
        more = len(groups) - MOST_TOLD
        sentence = f"There are {more} more new groups of dead letters: surefoot dlq groups --status OPEN."
        alerts.append(Alert("new_group", sentence, {"groups": str(more)}, cause="more"))
    return alerts


def many_open(consumer: str, count: int, limit: int) -> Alert:
    return Alert(
        "many_open",
        f"{_name(consumer)} has {count} open dead letters, more than {limit}: "
        f"surefoot dlq groups --consumer {shlex.quote(consumer)}.",
        {"consumer": consumer, "open": str(count)},
        cause=consumer,
    )


def is_many(count: int, limit: int) -> bool:
    return count > limit


def is_few_again(count: int, limit: int) -> bool:
    return count < limit * BELOW


def held_past_retention(held: PastRetention, retention: timedelta) -> Alert:
    sentence = (
        f"{_letters(held)} older than {_days(retention)}, and later events of the same keys wait. Kept until somebody "
        f"decides: surefoot dlq show {held.oldest_id} is the oldest."
    )
    return Alert("held_letter_past_retention", sentence, _details(held), cause=held.consumer)


def open_past_retention(free: PastRetention, retention: timedelta, grace: timedelta) -> Alert:
    sentence = (
        f"{_letters(free)} older than {_days(retention)}; no key is held. Removed in {_days(grace)} unless "
        f"somebody decides: surefoot dlq show {free.oldest_id} is the oldest."
    )
    return Alert("open_letter_past_retention", sentence, _details(free), cause=free.consumer)


def _new_group(group: Group) -> Alert:
    beginning = "A group of dead letters is back" if group.settled else "There is a new group of dead letters"
    quoted = printable(group.sentence, QUOTED)
    return Alert(
        "new_group",
        f"{beginning}, {group.open} open, of {_name(group.consumer)}: {quoted} "
        f"(surefoot dlq list --group {group.fingerprint})",
        {
            "consumer": group.consumer,
            "event_type": group.event_type or "",
            "reason": group.reason,
            "error_type": group.error_type,
            "fingerprint": group.fingerprint,
            "open": str(group.open),
        },
        cause=group.fingerprint,
    )


def _letters(past: PastRetention) -> str:
    what = "1 open dead letter is" if past.count == 1 else f"{past.count} open dead letters are"
    return f"Of {_name(past.consumer)}, {what}"


def _details(past: PastRetention) -> dict[str, str]:
    return {
        "consumer": past.consumer,
        "letters": str(past.count),
        "oldest": past.oldest_id,
        "oldest_at": past.oldest_at.isoformat(),
    }


def _name(consumer: str) -> str:
    return consumer or "(letters that could not be read)"


def _days(time: timedelta) -> str:
    if time >= timedelta(days=2):
        return f"{time.days} days"
    hours = time / timedelta(hours=1)
    return f"{hours:g} hours"
