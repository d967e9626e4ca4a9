"""Checkers of what replays and discards promise (P2, P3, P5, P7): pure functions over dead letters, jobs and effects.

They know nothing of how the dead-letter service works: an effect is a row that a handler wrote, a letter's place in the
log says which came first, and a job says of itself how it ended. Read them when nothing is under way any more. Each is
tested against a planted violation.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple

from tests.support.checkers.consumer import Effect

Violation = Literal[
    "effect_twice", "lost", "out_of_order", "replay_after_discard", "open_though_done", "counts_do_not_add_up"
]
IN_HAND = ("REPLAYING", "DISCARD_REQUESTED")


@dataclass(frozen=True, slots=True)
class Finding:
    violation: Violation
    sentence: str


class Letter(NamedTuple):
    """A dead letter: which event of which key, and where it lies."""

    event_id: str
    key: str
    partition: int
    offset: int
    status: str


class JobRow(NamedTuple):
    """A job as it shows itself."""

    job_id: str
    status: str
    total: int
    ok: int
    failed: int
    cancelled: int


class ItemRow(NamedTuple):
    job_id: str
    number: int
    event_id: str
    state: str
    answer: str | None


def effect_twice(effects: Iterable[Effect]) -> list[Finding]:
    """P2: however often it is replayed, an event has its effect once."""
    times = Counter(effect.event_id for effect in effects)
    return [
        Finding("effect_twice", f"{event_id} had its effect {many} times")
        for event_id, many in times.items()
        if many > 1
    ]


def lost(died: Iterable[str], letters: Iterable[Letter], effects: Iterable[Effect]) -> list[Finding]:
    """P5: what died has a letter; what is called replayed had its effect; nothing is in the hand of nobody."""
    known = {letter.event_id: letter.status for letter in letters}
    had = {effect.event_id for effect in effects}
    no_letter = [Finding("lost", f"{event_id} died and has no letter") for event_id in died if event_id not in known]
    no_effect = [
        Finding("lost", f"{event_id} is called replayed and had no effect")
        for event_id, status in known.items()
        if status == "REPLAYED" and event_id not in had
    ]
    in_hand = [
        Finding("lost", f"{event_id} is {status}, and nothing is under way")
        for event_id, status in known.items()
        if status in IN_HAND
    ]
    return [*no_letter, *no_effect, *in_hand]


def out_of_order(letters: Iterable[Letter], effects: Iterable[Effect]) -> list[Finding]:
    """P3: the replayed events of a key have their effects in the order of the log."""
    places = {letter.event_id: (letter.partition, letter.offset) for letter in letters}
    happened: dict[str, dict[str, None]] = defaultdict(dict)
    for effect in sorted(effects, key=lambda effect: effect.order):
        if effect.event_id in places:
            happened[effect.key].setdefault(effect.event_id)
    return [
        Finding("out_of_order", f"key {key}: the effect of {later} came behind that of {earlier}, and it is the older")
        for key, events in happened.items()
        for earlier, later in pairwise(events)
        if places[earlier] > places[later]
    ]


def replay_after_discard(letters: Iterable[Letter], effects: Iterable[Effect]) -> list[Finding]:
    """P7: what two people gave up has no effect any more. (One that had had it is not called discarded.)"""
    had = {effect.event_id for effect in effects}
    return [
        Finding("replay_after_discard", f"{letter.event_id} was discarded, and had its effect")
        for letter in letters
        if letter.status == "DISCARDED" and letter.event_id in had
    ]


def open_though_done(letters: Iterable[Letter], effects: Iterable[Effect]) -> list[Finding]:
    """An operator who sees it as open would decide about what has been done already."""
    had = {effect.event_id for effect in effects}
    return [
        Finding("open_though_done", f"{letter.event_id} had its effect, and is open")
        for letter in letters
        if letter.status == "OPEN" and letter.event_id in had
    ]


def counts_do_not_add_up(jobs: Iterable[JobRow], items: Iterable[ItemRow]) -> list[Finding]:
    """A job has ended, each of its items once, and what it says of itself is what they say."""
    of_job: dict[str, list[ItemRow]] = defaultdict(list)
    for item in items:
        of_job[item.job_id].append(item)
    return [
        Finding("counts_do_not_add_up", f"job {job.job_id}: {problem}")
        for job in jobs
        for problem in _problems(job, of_job[job.job_id])
    ]


def _problems(job: JobRow, items: Sequence[ItemRow]) -> Iterable[str]:
    states = Counter(item.state for item in items)
    if job.status not in ("DONE", "CANCELLED"):
        yield f"it is {job.status}, and nothing is under way"
    if len({item.event_id for item in items}) != job.total or len(items) != job.total:
        yield f"it is over {job.total} letters, and has {len(items)} items"
    if states["PENDING"] or states["SENT"]:
        yield f"{states['PENDING'] + states['SENT']} of its items have no end"
    if job.ok + job.failed + job.cancelled != job.total:
        yield f"{job.ok} well, {job.failed} not and {job.cancelled} cancelled are not {job.total}"
    if (job.ok + job.failed, job.cancelled) != (states["ANSWERED"], states["CANCELLED"]):
        yield f"{states['ANSWERED']} were answered and {states['CANCELLED']} cancelled, and it says otherwise"
    if any((item.answer is None) == (item.state == "ANSWERED") for item in items):
        yield "an item has an answer and is not answered, or the other way round"


def check_dead_letters(
    died: Sequence[str],
    letters: Sequence[Letter],
    effects: Sequence[Effect],
    jobs: Sequence[JobRow],
    items: Sequence[ItemRow],
) -> list[Finding]:
    """All of it. `died`: the events that a consumer gave up."""
    return [
        *effect_twice(effects),
        *lost(died, letters, effects),
        *out_of_order(letters, effects),
        *replay_after_discard(letters, effects),
        *open_though_done(letters, effects),
        *counts_do_not_add_up(jobs, items),
    ]
