"""What an answer means for the dead letter it is about, and for the job that asked. Pure.

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

Status = Literal["OPEN", "REPLAYING", "REPLAYED", "DISCARD_REQUESTED", "DISCARDED", "SUPERSEDED"]
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
