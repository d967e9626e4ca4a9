"""How fast a job goes on, and when it stops by itself. Pure: facts in, what to do next out.

Items go in order; of a lane (a key of a consumer) one is under way at a time, so `next` holds the first of each lane
that is free. What was sent and not answered is sent again when it is due, whatever the job's state: only its answer
tells what became of it. Once a job has paused by itself and a person has resumed it, its canary is over, and the
answers from before no longer count against it: they were seen.
"""

from dataclasses import dataclass
from typing import Literal

JobStatus = Literal["RUNNING", "PAUSED", "CANCELLING", "CANCELLED", "DONE"]
ENDED: tuple[JobStatus, ...] = ("CANCELLED", "DONE")
ENOUGH_ANSWERS = 10
"""A share of failures means little before so many answers."""


@dataclass(frozen=True, slots=True)
class Facts:
    """A job as it stands."""

    status: JobStatus
    total: int
    pending: int
    sent: int
    """Not answered yet."""
    answered: int
    failed: int
    counted: int
    """Answers that count for the share of failures: all, or those since it was resumed."""
    counted_failed: int
    canary: int
    canary_failed: int
    canary_answered: int
    may_canary: bool
    """It has not paused by itself before."""
    rate: float | None
    stop_on_error_rate: float | None
    allowance: float
    elapsed_s: float
    """Since the allowance was looked at last."""
    most_unanswered: int
    next: tuple[int, ...]
    """Numbers of pending items whose lanes are free, in order."""
    due: tuple[int, ...]
    """Numbers of sent items that nobody has answered for too long."""


@dataclass(frozen=True, slots=True)
class Send:
    """Mark these as sent, and send them."""

    numbers: tuple[int, ...]
    allowance: float


@dataclass(frozen=True, slots=True)
class Pause:
    note: str


@dataclass(frozen=True, slots=True)
class Finish:
    status: Literal["CANCELLED", "DONE"]
    note: str


@dataclass(frozen=True, slots=True)
class Wait:
    allowance: float


Decision = Send | Pause | Finish | Wait


def decide(facts: Facts) -> Decision:
    if facts.pending == 0 and facts.sent == 0:
        return Finish("CANCELLED" if facts.status == "CANCELLING" else "DONE", _counts(facts))
    if facts.status == "RUNNING":
        note = _why_pause(facts)
        if note is not None:
            return Pause(note)
    allowance = _allowance(facts)
    numbers = facts.due[: _affordable(facts, allowance)]
    if facts.status == "RUNNING":
        room = min(facts.most_unanswered - facts.sent, _affordable(facts, allowance) - len(numbers))
        numbers += tuple(n for n in facts.next if not _in_canary(facts) or n <= facts.canary)[: max(0, room)]
    if not numbers:
        return Wait(allowance)
    return Send(numbers, allowance - len(numbers) if facts.rate is not None else allowance)


def _why_pause(facts: Facts) -> str | None:
    if facts.pending == 0:
        return None  # there is nothing left to keep from being sent
    if _in_canary(facts) and facts.canary_failed:
        return (
            f"{facts.canary_failed} of the first {facts.canary} did not go well, so it has stopped. Look at their "
            "answers; resume it to go on with the rest, or cancel it."
        )
    if facts.stop_on_error_rate is None or facts.counted < ENOUGH_ANSWERS:
        return None
    if facts.counted_failed <= facts.stop_on_error_rate * facts.counted:
        return None
    return (
        f"{facts.counted_failed} of {facts.counted} did not go well, which is more than "
        f"{facts.stop_on_error_rate:.0%}, so it has stopped. Look at their answers; resume it to go on, or cancel it."
    )


def _in_canary(facts: Facts) -> bool:
    """Until all of the first have been answered well."""
    return (
        facts.may_canary
        and facts.canary > 0
        and (facts.canary_answered < min(facts.canary, facts.total) or facts.canary_failed > 0)
    )


def _allowance(facts: Facts) -> float:
    """Grows with time, up to what one second allows (or one): a job that waited does not make up for it at once."""
    if facts.rate is None:
        return 0.0
    return min(max(1.0, facts.rate), facts.allowance + facts.rate * max(0.0, facts.elapsed_s))


def _affordable(facts: Facts, allowance: float) -> int:
    return facts.total if facts.rate is None else int(allowance)


def _counts(facts: Facts) -> str:
    well = facts.answered - facts.failed
    cancelled = facts.total - facts.answered
    parts = [f"{well} went well", f"{facts.failed} did not"]
    if cancelled:
        parts.append(f"{cancelled} were cancelled")
    return f"Of {facts.total}, {', '.join(parts[:-1])} and {parts[-1]}."
