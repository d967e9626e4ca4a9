"""Where a saga stands: its status, the trail of steps it has entered, and the one timer it waits for. Frozen values.

Steps are named, never counted. What replies brought along is kept in the trail as it came; the engine never looks at
it. `to_json` and `from_json` are how the row of a saga keeps an instance: what is zero, empty or none is left out, so
that rows stay small. Choices and arrivals are lists of pairs, because jsonb does not keep the order of members.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

from surefoot.events.event import Direction
from surefoot.saga.stimulus import Arrived, Replied

Status = Literal["RUNNING", "COMPENSATING", "PAUSED", "COMPLETED", "COMPENSATED", "FAILED", "STUCK"]
"""COMPENSATED: all undone. FAILED: refused with nothing to undo. STUCK: in front of an operator; it still takes the
reply it waits for."""
ENDED: frozenset[Status] = frozenset({"COMPLETED", "COMPENSATED", "FAILED"})

StepState = Literal["AWAITED", "DONE", "REFUSED", "UNKNOWN", "LEFT", "UNDOING", "UNDONE"]
"""AWAITED: its command is out, or its event is waited for. UNKNOWN: out of attempts, it may have been done. LEFT: a
wait that was given up."""

TimerKind = Literal["timeout", "rest", "deadline"]
"""A command's answer is late; the next attempt is due; a wait is over."""


@dataclass(frozen=True, slots=True)
class StepRecord:
    """One step of the trail. `limit` and `undo_limit` are the attempts it has; an operator's retry grants more. Of a
    wait, `attempt` counts how often an operator had it wait once more."""

    name: str
    state: StepState
    attempt: int = 0
    limit: int = 0
    undo_attempt: int = 0
    undo_limit: int = 0
    result: Any = None


@dataclass(frozen=True, slots=True)
class Timer:
    """What fires, and after how long. It carries the attempt it belongs to: so a late one is told from a due one."""

    step: str
    direction: Direction
    attempt: int
    kind: TimerKind
    after: timedelta


@dataclass(frozen=True, slots=True)
class Instance:
    status: Status = "RUNNING"
    trail: tuple[StepRecord, ...] = ()
    choices: tuple[tuple[str, str], ...] = ()
    """Which path was taken at each branch."""
    timer: Timer | None = None
    arrived: tuple[tuple[str, Any], ...] = ()
    """Waits whose event came before the saga had reached them, and what it brought."""
    held: tuple[Replied | Arrived, ...] = ()
    """What came while it was paused, in order."""
    before_pause: Status | None = None
    timer_before_pause: Timer | None = None

    def record(self, step: str) -> StepRecord | None:
        return next((record for record in self.trail if record.name == step), None)

    @property
    def awaited(self) -> tuple[StepRecord, Direction] | None:
        """The step whose answer the saga waits for, and whether that of its do or its undo."""
        return awaited_in(self.status, self.trail)


def awaited_in(status: Status, trail: Sequence[StepRecord]) -> tuple[StepRecord, Direction] | None:
    undoing = next((record for record in trail if record.state == "UNDOING"), None)
    if undoing is not None:
        return undoing, "undo"
    if not trail or status in ENDED:
        return None
    # An outcome that stayed unknown leaves the saga stuck, and the answer may still come.
    return (trail[-1], "do") if trail[-1].state in ("AWAITED", "UNKNOWN") else None


Json = dict[str, Any]


def to_json(instance: Instance) -> Json:
    made: Json = {"status": instance.status, "trail": [_record_to_json(record) for record in instance.trail]}
    if instance.choices:
        made["choices"] = [[branch, label] for branch, label in instance.choices]
    if instance.timer is not None:
        made["timer"] = _timer_to_json(instance.timer)
    if instance.arrived:
        made["arrived"] = [[wait, result] for wait, result in instance.arrived]
    if instance.held:
        made["held"] = [_held_to_json(one) for one in instance.held]
    if instance.before_pause is not None:
        made["before_pause"] = instance.before_pause
    if instance.timer_before_pause is not None:
        made["timer_before_pause"] = _timer_to_json(instance.timer_before_pause)
    return made


def from_json(stored: Mapping[str, Any]) -> Instance:
    timer, timer_before_pause = stored.get("timer"), stored.get("timer_before_pause")
    return Instance(
        stored["status"],
        tuple([_record_from_json(record) for record in stored["trail"]]),
        tuple([(branch, label) for branch, label in stored.get("choices", ())]),
        None if timer is None else _timer_from_json(timer),
        tuple([(wait, result) for wait, result in stored.get("arrived", ())]),
        tuple([_held_from_json(one) for one in stored.get("held", ())]),
        stored.get("before_pause"),
        None if timer_before_pause is None else _timer_from_json(timer_before_pause),
    )


def _record_to_json(record: StepRecord) -> Json:
    made: Json = {"name": record.name, "state": record.state}
    if record.attempt:
        made["attempt"] = record.attempt
    if record.limit:
        made["limit"] = record.limit
    if record.undo_attempt:
        made["undo_attempt"] = record.undo_attempt
    if record.undo_limit:
        made["undo_limit"] = record.undo_limit
    if record.result is not None:
        made["result"] = record.result
    return made


def _record_from_json(stored: Mapping[str, Any]) -> StepRecord:
    return StepRecord(
        stored["name"],
        stored["state"],
        stored.get("attempt", 0),
        stored.get("limit", 0),
        stored.get("undo_attempt", 0),
        stored.get("undo_limit", 0),
        stored.get("result"),
    )


def _timer_to_json(timer: Timer) -> Json:
    return {
        "step": timer.step,
        "direction": timer.direction,
        "attempt": timer.attempt,
        "kind": timer.kind,
        "seconds": timer.after.total_seconds(),
    }


def _timer_from_json(stored: Mapping[str, Any]) -> Timer:
    after = timedelta(seconds=stored["seconds"])
    return Timer(stored["step"], stored["direction"], stored["attempt"], stored["kind"], after)


def _held_to_json(held: Replied | Arrived) -> Json:
    if isinstance(held, Arrived):
        made: Json = {"wait": held.wait}
    else:
        made = {"step": held.step, "direction": held.direction, "attempt": held.attempt, "answer": held.answer}
        if held.why:
            made["why"] = held.why
    if held.result is not None:
        made["result"] = held.result
    if held.event_id:
        made["event_id"] = held.event_id
    return made


def _held_from_json(stored: Mapping[str, Any]) -> Replied | Arrived:
    result, event_id = stored.get("result"), stored.get("event_id", "")
    if "wait" in stored:
        return Arrived(stored["wait"], result, event_id)
    return Replied(
        stored["step"],
        stored["direction"],
        stored["attempt"],
        stored["answer"],
        result,
        stored.get("why", ""),
        event_id,
    )
