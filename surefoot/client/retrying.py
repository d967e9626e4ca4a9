"""Which answers are asked for again, when, and for how long. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

from surefoot.client.answer import Answer
from surefoot.errors import ConfigurationError
from surefoot.retry import backoff, jittered

_SECONDS = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True, slots=True)
class Patience:
    attempts: int = 10
    within: timedelta = timedelta(seconds=60)
    """All attempts and rests together."""
    base: timedelta = timedelta(milliseconds=250)
    longest: timedelta = timedelta(seconds=20)

    def __post_init__(self) -> None:
        if self.attempts < 1 or self.within <= timedelta(0) or not timedelta(0) <= self.base <= self.longest:
            raise ConfigurationError(
                "A client needs attempts=1 at least, within more than nothing, and base not longer than longest."
            )

    def rest(self, n: int, chance: float) -> timedelta:
        """Before the retry after n others: between half and all of min(base x 2^n, longest), by chance."""
        return jittered(backoff(n, shortest=self.base, longest=self.longest), chance)


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
