"""Checkers of what sagas promise (P4, P6): pure functions over their rows, their history, and what services really did.

They know nothing of the engine: an effect is a row that a service wrote, `order` sorts by when it happened, and a plan
says which steps a saga has. Each is tested against a planted violation.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple

Violation = Literal[
    "unfinished",
    "effect_missing",
    "repeated",
    "undone_though_completed",
    "not_undone",
    "undo_order",
    "undone_after_pivot",
    "history_broken",
    "started_twice",
    "cancelled_by_outage",
]
ENDS = {"COMPLETED": "COMPLETED", "COMPENSATED": "COMPENSATED", "ENDED_FAILED": "FAILED"}
"""The lines of a history that end a saga, and the status each leaves it in."""


class SagaRow(NamedTuple):
    saga_id: str
    saga_type: str
    version: int
    entity_id: str
    start_event_id: str
    status: str
    current_step: str | None


class Line(NamedTuple):
    """A line of the history."""

    saga_id: str
    order: int
    kind: str
    step: str | None
    direction: str | None
    attempt: int | None
    before: str
    after: str


class SagaEffect(NamedTuple):
    """Something a service did for a saga."""

    saga_id: str
    step: str
    direction: str
    order: int


@dataclass(frozen=True, slots=True)
class Plan:
    """The steps of a saga that takes no branch, in order, and which of them is its point of no return."""

    steps: tuple[str, ...]
    pivot: str | None = None


@dataclass(frozen=True, slots=True)
class SagaFinding:
    violation: Violation
    sentence: str


Effects = Mapping[str, Sequence[SagaEffect]]
"""By saga, in the order in which they happened."""


def unfinished(sagas: Iterable[SagaRow]) -> list[SagaFinding]:
    """P4: each has ended, or is stuck at a step that an operator can see."""
    return [
        SagaFinding("unfinished", f"{named(saga)} is {saga.status} at {saga.current_step}")
        for saga in sagas
        if saga.status not in ENDS.values() and not (saga.status == "STUCK" and saga.current_step is not None)
    ]


def repeated(sagas: Iterable[SagaRow], effects: Effects) -> list[SagaFinding]:
    """P2: no service did, or undid, a step of a saga more than once."""
    findings = []
    for saga in sagas:
        counted = Counter((effect.direction, effect.step) for effect in effects.get(saga.saga_id, ()))
        findings += [
            SagaFinding("repeated", f"{named(saga)}: the {direction} of {step} was carried out {times} times")
            for (direction, step), times in counted.items()
            if times > 1
        ]
    return findings


def completed_wrongly(
    sagas: Iterable[SagaRow], effects: Effects, plans: Mapping[tuple[str, int], Plan]
) -> list[SagaFinding]:
    """P4: what is completed has every effect, and none of them was undone."""
    findings = []
    for saga in sagas:
        if saga.status != "COMPLETED":
            continue
        done = steps_of(saga, effects, "do")
        findings += [
            SagaFinding("effect_missing", f"{named(saga)} is completed, and {step} was never done")
            for step in plans[saga.saga_type, saga.version].steps
            if step not in done
        ]
        findings += [
            SagaFinding("undone_though_completed", f"{named(saga)} is completed, and {step} was undone")
            for step in steps_of(saga, effects, "undo")
        ]
    return findings


def left_undone(sagas: Iterable[SagaRow], effects: Effects) -> list[SagaFinding]:
    """P4: of what is undone nothing stays: what was done was undone, and after it was done."""
    findings = []
    for saga in sagas:
        if saga.status not in ("COMPENSATED", "FAILED"):
            continue
        last = {effect.step: effect.direction for effect in effects.get(saga.saga_id, ())}
        findings += [
            SagaFinding("not_undone", f"{named(saga)} is {saga.status}, and what {step} did still stands")
            for step, direction in last.items()
            if direction == "do"
        ]
    return findings


def undone_out_of_order(sagas: Iterable[SagaRow], effects: Effects) -> list[SagaFinding]:
    """Undos happen in the reverse order of what they undo."""
    findings = []
    for saga in sagas:
        done = list(dict.fromkeys(steps_of(saga, effects, "do")))
        undone = [step for step in dict.fromkeys(steps_of(saga, effects, "undo")) if step in done]
        wanted = [step for step in reversed(done) if step in undone]
        if undone != wanted:
            sentence = f"{named(saga)} was undone in the order {', '.join(undone)}; should be {', '.join(wanted)}"
            findings.append(SagaFinding("undo_order", sentence))
    return findings


def undone_after_pivot(
    sagas: Iterable[SagaRow], effects: Effects, plans: Mapping[tuple[str, int], Plan]
) -> list[SagaFinding]:
    """Behind the point of no return nothing is undone."""
    findings = []
    for saga in sagas:
        pivot = plans[saga.saga_type, saga.version].pivot
        undone = steps_of(saga, effects, "undo")
        if undone and pivot in steps_of(saga, effects, "do"):
            sentence = f"{named(saga)} has passed {pivot}, and {', '.join(undone)} was undone"
            findings.append(SagaFinding("undone_after_pivot", sentence))
    return findings


def broken_histories(sagas: Iterable[SagaRow], lines: Iterable[Line]) -> list[SagaFinding]:
    """Each history is an unbroken chain of statuses, from one beginning to the status of its saga, with at most one end
    and no attempt sent twice."""
    told: dict[str, list[Line]] = defaultdict(list)
    for line in sorted(lines, key=lambda line: line.order):
        told[line.saga_id].append(line)
    return [
        SagaFinding("history_broken", f"{named(saga)}: {wrong}")
        for saga in sagas
        for wrong in wrong_in(saga, told[saga.saga_id])
    ]


def wrong_in(saga: SagaRow, lines: Sequence[Line]) -> list[str]:
    if [line.kind for line in lines[:1]] != ["STARTED"]:
        return ["its history does not begin with STARTED"]
    wrong = []
    if sum(line.kind == "STARTED" for line in lines) > 1:
        wrong.append("it has begun more than once")
    for earlier, later in pairwise(lines):
        if earlier.after != later.before:
            wrong.append(f"after {earlier.kind} it was {earlier.after}, before {later.kind} it is {later.before}")
        if earlier.kind in ENDS and later.kind != "IGNORED":
            wrong.append(f"{later.kind} came after its end")
    ends = [line for line in lines if line.kind in ENDS]
    if len(ends) > 1:
        wrong.append(f"it has ended {len(ends)} times")
    if lines[-1].after != saga.status:
        wrong.append(f"it is {saga.status}, and its history ends with {lines[-1].after}")
    if (saga.status in ENDS.values()) != bool(ends) or any(ENDS[line.kind] != line.after for line in ends):
        wrong.append(f"it is {saga.status}, and its history has the ends {[line.kind for line in ends]}")
    sent = Counter((line.direction, line.step, line.attempt) for line in lines if line.kind == "SENT")
    wrong += [f"attempt {what[2]} of the {what[0]} of {what[1]} was sent twice" for what, n in sent.items() if n > 1]
    return wrong


def started_twice(sagas: Iterable[SagaRow]) -> list[SagaFinding]:
    """One start event starts one saga of a type."""
    counted = Counter((saga.saga_type, saga.entity_id, saga.start_event_id) for saga in sagas)
    return [
        SagaFinding("started_twice", f"{event} has started {times} sagas of {saga_type} for {entity}")
        for (saga_type, entity, event), times in counted.items()
        if times > 1
    ]


def cancelled_by_outage(sagas: Iterable[SagaRow], lines: Iterable[Line]) -> list[SagaFinding]:
    """P6, for a story in which no service refuses or fails: no saga is given up, however long anything is away."""
    given_up = {line.saga_id for line in lines if line.kind == "COMPENSATING"}
    return [
        SagaFinding("cancelled_by_outage", f"{named(saga)} was given up ({saga.status}), though nobody failed")
        for saga in sagas
        if saga.saga_id in given_up or saga.status in ("COMPENSATING", "COMPENSATED", "FAILED")
    ]


def check_sagas(
    sagas: Sequence[SagaRow],
    lines: Sequence[Line],
    effects: Iterable[SagaEffect],
    plans: Mapping[tuple[str, int], Plan],
) -> list[SagaFinding]:
    """All of it, but for what depends on the story: whether anybody had a reason to give up."""
    by_saga: dict[str, list[SagaEffect]] = defaultdict(list)
    for effect in sorted(effects, key=lambda effect: effect.order):
        by_saga[effect.saga_id].append(effect)
    return [
        *unfinished(sagas),
        *repeated(sagas, by_saga),
        *completed_wrongly(sagas, by_saga, plans),
        *left_undone(sagas, by_saga),
        *undone_out_of_order(sagas, by_saga),
        *undone_after_pivot(sagas, by_saga, plans),
        *broken_histories(sagas, lines),
        *started_twice(sagas),
    ]


def steps_of(saga: SagaRow, effects: Effects, direction: str) -> list[str]:
    return [effect.step for effect in effects.get(saga.saga_id, ()) if effect.direction == direction]


def named(saga: SagaRow) -> str:
    return f"{saga.saga_type} of {saga.entity_id} ({saga.saga_id})"
