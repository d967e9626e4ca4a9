"""Which answers are asked for again, and when. Pure."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

from surefoot.client.answer import Answer

_SECONDS = re.compile(r"[0-9]{1,9}")


def may_change(answer: Answer) -> bool:
    """Whether asking again may give another answer.

    A 409 only if it says that the same request is in flight: any other one is about the state of things. A failure that
    is replayed is what the server has stored for the key, and stays.
    """
    if answer.status == 409:
        return answer.problem == "in-flight"
    return answer.status == 429 or (answer.status >= 500 and not answer.replayed)


def asked_to_wait(headers: Mapping[str, str], now: datetime) -> timedelta:
    """What `Retry-After` asks for, in seconds or as a date; nothing if it says nothing that can be read."""
    said = headers.get("retry-after", "").strip()
    if _SECONDS.fullmatch(said):
        return timedelta(seconds=int(said))
    then = _http_date(said)
    if then is None:
        return timedelta(0)
    # By the server's own clock where it tells it: ours may differ by more than the wait.
    return max(then - (_http_date(headers.get("date", "")) or now), timedelta(0))


def _http_date(text: str) -> datetime | None:
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return date if date.tzinfo is not None else date.replace(tzinfo=UTC)
