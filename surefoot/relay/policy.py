"""What to do with a refused record, and how long to rest. Pure: values in, values out."""

from dataclasses import dataclass
from datetime import timedelta

from surefoot.log.port import Refusal
from surefoot.retry import backoff


@dataclass(frozen=True, slots=True)
class TryAgain:
    """Leave the row PENDING, its key waiting, until `after` has passed."""

    after: timedelta


@dataclass(frozen=True, slots=True)
class GiveUp:
    """The row is FAILED; its key is held until an operator retries or releases it."""


RefusalDecision = TryAgain | GiveUp


def after_refusal(
    attempts_before: int, *, max_attempts: int, retry_min: timedelta, retry_max: timedelta
) -> RefusalDecision:
    if attempts_before + 1 >= max_attempts:
        return GiveUp()
    return TryAgain(backoff(attempts_before, shortest=retry_min, longest=retry_max))


def next_pause(pause: timedelta, *, found: int, shortest: timedelta, longest: timedelta) -> timedelta:
    """How long to rest after a round: little while events trickle in, ever longer while nothing comes."""
    return shortest if found else min(longest, max(pause, shortest) * 2)


ADVICE: dict[Refusal, str] = {
    "too_large": "Raise the topic's limit and retry it, or release it to let its key go on without it.",
    "unknown_topic": "Create the topic (surefoot topics create) and retry it, or release it.",
    "rejected": "See why the log rejects it and retry it, or release it to let its key go on without it.",
}
