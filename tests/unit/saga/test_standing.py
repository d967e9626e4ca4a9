"""A standing is stored as JSON and comes back exactly."""

import json
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as some

from surefoot.saga import Instance
from surefoot.saga.instance import StepRecord, Timer, from_json, to_json
from surefoot.saga.stimulus import Arrived, Replied

names = some.text("abc_é", min_size=1, max_size=5)
directions = some.sampled_from(["do", "undo"])
statuses = some.sampled_from(["RUNNING", "COMPENSATING", "PAUSED", "COMPLETED", "COMPENSATED", "FAILED", "STUCK"])
states = some.sampled_from(["AWAITED", "DONE", "REFUSED", "UNKNOWN", "LEFT", "UNDOING", "UNDONE"])
kinds = some.sampled_from(["timeout", "rest", "deadline"])
counts = some.integers(0, 2000)
results = some.recursive(
    some.none() | some.booleans() | some.integers() | some.text(max_size=5),
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
records = some.builds(StepRecord, names, states, counts, counts, counts, counts, results)
timers = some.builds(Timer, names, directions, counts, kinds, some.timedeltas(timedelta(0), timedelta(days=90_000)))
replies = some.builds(
    Replied, names, directions, counts, some.sampled_from(["done", "refused", "failed"]), results, names, names
)
arrivals = some.builds(Arrived, names, results, some.text(max_size=3))
pairs = some.tuples(names, names)
instances = some.builds(
    Instance,
    statuses,
    some.lists(records, max_size=4).map(tuple),
    some.lists(pairs, max_size=3).map(tuple),
    some.none() | timers,
    some.lists(some.tuples(names, results), max_size=3).map(tuple),
    some.lists(replies | arrivals, max_size=3).map(tuple),
    some.none() | statuses,
    some.none() | timers,
)


@given(instances)
def test_any_standing_comes_back_as_it_was(instance: Instance) -> None:
    assert from_json(json.loads(json.dumps(to_json(instance)))) == instance


def test_a_standing_is_stored_under_these_names() -> None:
    standing = Instance(
        "PAUSED",
        (
            StepRecord("reserve", "DONE", 2, 5, result={"type": "stock.reserved", "version": 1, "data": {}}),
            StepRecord("pay", "UNDOING", 1, 5, 1, 3),
        ),
        (("kind", "gift"),),
        None,
        (("collected", None),),
        (Replied("pay", "undo", 1, "done", why="", event_id="e-1"), Arrived("collected", 3)),
        "COMPENSATING",
        Timer("pay", "undo", 1, "timeout", timedelta(minutes=2, milliseconds=5)),
    )
    assert to_json(standing) == {
        "status": "PAUSED",
        "trail": [
            {
                "name": "reserve",
                "state": "DONE",
                "attempt": 2,
                "limit": 5,
                "result": {"type": "stock.reserved", "version": 1, "data": {}},
            },
            {"name": "pay", "state": "UNDOING", "attempt": 1, "limit": 5, "undo_attempt": 1, "undo_limit": 3},
        ],
        "choices": [["kind", "gift"]],
        "arrived": [["collected", None]],
        "held": [
            {"step": "pay", "direction": "undo", "attempt": 1, "answer": "done", "event_id": "e-1"},
            {"wait": "collected", "result": 3},
        ],
        "before_pause": "COMPENSATING",
        "timer_before_pause": {"step": "pay", "direction": "undo", "attempt": 1, "kind": "timeout", "seconds": 120.005},
    }


def test_what_is_empty_is_left_out() -> None:
    assert to_json(Instance()) == {"status": "RUNNING", "trail": []}
    assert from_json({"status": "RUNNING", "trail": []}) == Instance()
