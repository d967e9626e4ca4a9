"""What a job does next, and what an answer means for it and for its dead letter. Pure.

How a job goes on: facts in, what to do next out. Items go in order; of a lane (a key of a consumer) one is under way at
a time, so `next` holds the first of each lane that is free. What was sent and not answered is sent again when it is
due, whatever the job's state: only its answer tells what became of it. Once a job has paused by itself and a person has
resumed it, its canary is over, and the answers from before no longer count against it: they were seen.

What an answer means:

| job | answer | the letter becomes | counts as |
|---|---|---|---|
| replay | done, already_done | REPLAYED | ok |
| replay | already_settled | DISCARDED or SUPERSEDED if the inbox says so, else REPLAYED | ok |
| discard | discarded, unknown | DISCARDED | ok |
| discard | already_done | REPLAYED | ok |
| discard | already_settled | as in a replay | ok |
| supersede | done | SUPERSEDED | ok |
| supersede | failed_again | SUPERSEDED; the edited event comes back as a letter of its own | failed |
| supersede | already_done, already_settled | as in a replay | failed |
| inspect | any | unchanged | ok |
| any other | | OPEN | failed |
"""

from dataclasses import dataclass
from typing import Literal, assert_never, get_args

from surefoot.consumer.contracts import Action, Answer
from surefoot.events.text import printable

JobStatus = Literal["RUNNING", "PAUSED", "CANCELLING", "CANCELLED", "DONE"]
ENDED: tuple[JobStatus, ...] = ("CANCELLED", "DONE")
ENOUGH_ANSWERS = 10
"""A share of failures means little before so many answers."""
Settlement = Literal["OPEN", "REPLAYED", "DISCARDED", "SUPERSEDED"]
CountsAs = Literal["ok", "failed"]
ANSWERS: tuple[Answer, ...] = get_args(Answer)
MAX_RESOLUTION = 3000

_OK: dict[Action, frozenset[Answer]] = {
    "replay": frozenset({"done", "already_done", "already_settled"}),
    "discard": frozenset({"discarded", "unknown", "already_done", "already_settled"}),
    "supersede": frozenset({"done"}),
    "inspect": frozenset(ANSWERS),
}
_DEED: dict[Settlement, str] = {"REPLAYED": "Replayed", "DISCARDED": "Discarded", "SUPERSEDED": "Superseded"}


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


@dataclass(frozen=True, slots=True)
class Decided:
    """Who is behind a job, and why."""

    by: str
    why: str
    approved_by: str | None = None


def counts_as(kind: Action, answer: str) -> CountsAs:
    return "ok" if answer in _OK[kind] else "failed"


def settled(kind: Action, answer: Answer, outcome: str | None) -> Settlement | None:
    """What the letter becomes; None if it stays as it is. `outcome`: what the consumer's inbox says."""
    match kind:
        case "inspect":
            return None
        case "replay" if answer == "done":
            return "REPLAYED"
        case "discard" if answer in ("discarded", "unknown"):
            return "DISCARDED"
        case "supersede" if answer in ("done", "failed_again"):
            return "SUPERSEDED"
        case "replay" | "discard" | "supersede":
            return _settled_before(answer, outcome)
        case _:
            assert_never(kind)


def resolution(decided: Decided, settlement: Settlement, *, consumer: str, answer: Answer, sentence: str) -> str | None:
    """What became of it, who decided it, why, and what the consumer said; nothing for a letter that is open."""
    if settlement == "OPEN":
        return None
    who = decided.by if decided.approved_by is None else f"{decided.by}, approved by {decided.approved_by}"
    said = f"{consumer} says: {answer}. {sentence}"
    return printable(f"{_DEED[settlement]} by {who}: {decided.why.rstrip('.')}. {said}", MAX_RESOLUTION)


def _settled_before(answer: Answer, outcome: str | None) -> Settlement:
    match answer, outcome:
        case "already_settled", "DISCARDED":
            return "DISCARDED"
        case "already_settled", "SUPERSEDED":
            return "SUPERSEDED"
        case "already_done" | "already_settled", _:  # or barred: its undo came first, and nothing is left to be done
            return "REPLAYED"
        case _:
            return "OPEN"
