"""Checkers of what idempotent requests promise: pure functions over what was sent and answered, what has happened, and
what lies in the table of keys.

They know nothing of how the layer works: a request is known by the mark it carries, an effect is a line in somebody's
books (a provider's, our ledger) with that mark on it. Read them when nothing is under way any more. Each is tested
against a planted violation.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

Violation = Literal["charged_twice", "different_bytes", "mismatch_executed", "lost", "stuck"]

COME_AGAIN = frozenset({401, 403, 408, 409, 410, 413, 415, 421, 425, 429})
"""Answers that speak of the moment: a retry may well get another one."""
OPEN_STATES = frozenset({"IN_FLIGHT", "FAILED_RETRY"})


@dataclass(frozen=True, slots=True)
class Finding:
    violation: Violation
    sentence: str


class Sent(NamedTuple):
    """A request, and what came of it as the client saw it."""

    key: str
    """With its tenant, if there are several."""
    mark: str
    """What it asks for: requests with the same mark are the same."""
    status: int | None
    """None: no answer came."""
    headers: tuple[tuple[str, str], ...] = ()
    """Those that belong to the answer, not to its sending."""
    body: bytes = b""


class Effect(NamedTuple):
    """A line in somebody's books."""

    mark: str
    where: str
    """Whose books: "provider", "ledger"."""
    reference: str
    """What the books call it."""


class KeyRow(NamedTuple):
    """A key as its row shows it."""

    key: str
    state: str
    call_is_open: bool
    """Whether a call to a provider is still called pending."""


def is_final(status: int | None) -> bool:
    """Whether every retry must get this answer."""
    return status is not None and status < 500 and status not in COME_AGAIN


def charged_twice(effects: Iterable[Effect]) -> list[Finding]:
    """For one request there is one effect in each of the books, whatever died."""
    references: dict[tuple[str, str], list[str]] = defaultdict(list)
    for effect in effects:
        references[effect.mark, effect.where].append(effect.reference)
    return [
        Finding("charged_twice", f"{mark} is {len(found)} times in the books of the {where}: {', '.join(found)}")
        for (mark, where), found in references.items()
        if len(found) > 1
    ]


def different_bytes(sent: Iterable[Sent]) -> list[Finding]:
    """Once a request was answered, every retry of it gets the same status, headers and body."""
    answers: dict[tuple[str, str], dict[tuple[object, ...], None]] = defaultdict(dict)
    for one in sent:
        if is_final(one.status):
            answers[one.key, one.mark].setdefault((one.status, one.headers, one.body))
    return [
        Finding("different_bytes", f"{mark} under key {key} got {len(found)} different answers: {_shown(found)}")
        for (key, mark), found in answers.items()
        if len(found) > 1
    ]


def mismatch_executed(sent: Iterable[Sent], effects: Iterable[Effect]) -> list[Finding]:
    """Of the requests that came under one key, one has an effect or is answered as done; the others are neither
    executed nor given its answer."""
    had_effects = {effect.mark for effect in effects}
    done: dict[str, set[str]] = defaultdict(set)
    for one in sent:
        if one.mark in had_effects or (one.status is not None and one.status < 400):
            done[one.key].add(one.mark)
    return [
        Finding("mismatch_executed", f"key {key} was used for {len(marks)} requests: {', '.join(sorted(marks))}")
        for key, marks in done.items()
        if len(marks) > 1
    ]


def lost(sent: Iterable[Sent], effects: Sequence[Effect], books: Collection[str]) -> list[Finding]:
    """What was answered as done is in all of these books, and what is in one of them is in all."""
    there: dict[str, set[str]] = defaultdict(set)
    for effect in effects:
        there[effect.mark].add(effect.where)
    answered = {one.mark for one in sent if one.status is not None and one.status < 400}
    return [
        Finding("lost", f"{mark} {_why(mark in answered, there[mark])}, and is not in the books of the {where}")
        for mark in sorted(answered | set(there))
        for where in books
        if where not in there[mark]
    ]


def stuck(rows: Iterable[KeyRow]) -> list[Finding]:
    """Nothing stays claimed for ever: each key has come to an end, and so has its call."""
    return [
        Finding("stuck", f"key {row.key} is {row.state}{' with a call pending' if row.call_is_open else ''}")
        for row in rows
        if row.state in OPEN_STATES or row.call_is_open
    ]


def check_idempotency(
    sent: Sequence[Sent], effects: Sequence[Effect], rows: Sequence[KeyRow], *, books: Collection[str]
) -> list[Finding]:
    """All of it."""
    return [
        *charged_twice(effects),
        *different_bytes(sent),
        *mismatch_executed(sent, effects),
        *lost(sent, effects, books),
        *stuck(rows),
    ]


def _shown(answers: Iterable[tuple[object, ...]]) -> str:
    return " / ".join(f"{status} {headers} {body!r}" for status, headers, body in answers)


def _why(answered: bool, there: Collection[str]) -> str:
    return "was answered as done" if answered else f"is in the books of the {' and the '.join(sorted(there))}"
