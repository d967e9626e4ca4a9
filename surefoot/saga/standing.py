"""A saga's standing as JSON, and back, exactly: so it is stored in `saga_instances`.

What is zero, empty or none is left out, so rows stay small. Choices and arrivals are lists of pairs, since jsonb does
not keep the order of an object's members. Plain code: it runs for every decision.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from surefoot.saga.instance import Instance, StepRecord, Timer
from surefoot.saga.stimulus import Arrived, Replied

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
