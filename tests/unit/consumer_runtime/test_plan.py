"""The one rule: nothing of a key is handled while something earlier of that key waits."""

from itertools import chain
from typing import Any

from surefoot.consumer.consumer import WhenDead
from surefoot.consumer.contracts import Control
from surefoot.consumer.handlers import BatchHandler, EventHandler, Handler, OutsideHandler
from surefoot.consumer_runtime.plan import (
    Bad,
    Bury,
    Delivery,
    Handle,
    HandleRun,
    Obey,
    Passed,
    Prepare,
    Reading,
    Told,
    Wait,
    cut,
    plan,
)
from surefoot.events import event_type_of, new_event
from tests.support.consumer.records import raw
from tests.support.corpus import each_of
from tests.support.event_types import ThingHappened, ThingPaid


async def nothing(*_: Any) -> None: ...


async def also_nothing(*_: Any) -> None: ...


HAPPENED = event_type_of(ThingHappened)
EACH = EventHandler(HAPPENED, "each", nothing)
WHOLE = BatchHandler(HAPPENED, "whole", nothing)
WHOLE_OF_PAID = BatchHandler(event_type_of(ThingPaid), "whole", nothing)
OTHER_WHOLE = BatchHandler(HAPPENED, "other", also_nothing)
OUTSIDE = OutsideHandler(HAPPENED, "outside", nothing, nothing, None, False)


def delivery(key: str, event_id: str = "", handler: Handler = EACH) -> Delivery:
    event = new_event(ThingHappened(thing_id=key))
    return Delivery(raw(b""), key, "/tests", event_id or event.id, event, handler)


def bad(key: str, *, identified: bool) -> Bad:
    return Bad(raw(b""), key, "/tests", f"bad-{key}", None, None, "invalid_data", "It is bad.", identified)


def told(event_id: str = "c-1") -> Told:
    control = Control(action="inspect", consumer="w", source="/tests", event_id="e", by="ann", why="look")
    return Told(raw(b""), "a", "/dlq", event_id, control)


def planned(*readings: Reading, held: set[str] | None = None, when_dead: WhenDead = "hold") -> list[Any]:
    return plan(readings, held=held or set(), fresh=None, when_dead=when_dead).steps


def test_events_are_handled_in_order() -> None:
    first, second = delivery("a"), delivery("b")
    assert planned(first, second) == [Handle(first), Handle(second)]


def test_an_event_of_a_held_key_waits_and_others_do_not() -> None:
    held, free = delivery("a"), delivery("b")
    assert planned(held, free, held={"a"}) == [Wait(held), Handle(free)]


def test_a_duplicate_is_dropped_also_within_the_batch() -> None:
    first, again, seen = delivery("a", "1"), delivery("a", "1"), delivery("a", "2")
    made = plan([first, again, seen], held=set(), fresh={("/tests", "1")}, when_dead="hold")
    assert made.steps == [Handle(first)]
    assert made.duplicates == 2


def test_what_has_no_handler_is_counted() -> None:
    made = plan(
        [Passed(raw(b""), 1), Passed(raw(b""), 0), Passed(raw(b""), 1)], held=set(), fresh=None, when_dead="hold"
    )
    assert (made.steps, made.ignored) == ([], 2)


def test_an_outside_call_makes_the_rest_of_its_key_wait() -> None:
    call, behind, other = delivery("a", handler=OUTSIDE), delivery("a"), delivery("b")
    assert planned(call, behind, other) == [Prepare(call), Wait(behind), Handle(other)]


def test_a_bad_event_of_a_known_key_holds_it() -> None:
    poison, behind, other = bad("a", identified=True), delivery("a"), delivery("b")
    assert planned(poison, behind, other) == [Bury(poison, holds=True), Wait(behind), Handle(other)]


def test_a_bad_event_holds_nothing_where_the_consumer_releases() -> None:
    poison, behind = bad("a", identified=True), delivery("a")
    assert planned(poison, behind, when_dead="release") == [Bury(poison, holds=False), Handle(behind)]


def test_a_bad_event_behind_a_held_key_waits_as_well() -> None:
    poison = bad("a", identified=True)
    assert planned(poison, held={"a"}) == [Wait(poison)]


def test_a_record_that_is_no_event_is_buried_at_once_and_holds_nobody() -> None:
    noise, behind = bad("a", identified=False), delivery("a")
    assert planned(noise, behind) == [Bury(noise, holds=False), Handle(behind)]
    assert planned(noise, held={"a"}) == [Bury(noise, holds=False)]


def test_a_control_record_is_obeyed_though_its_key_is_held() -> None:
    control = told()
    assert planned(control, held={"a"}) == [Obey(control)]


def test_events_of_one_batch_handler_are_a_run_until_something_else_comes() -> None:
    first, second, third, fourth = (delivery("a", handler=WHOLE) for _ in range(4))
    single = delivery("b")
    assert planned(first, second, single, third, fourth) == [
        HandleRun([first, second]),
        Handle(single),
        HandleRun([third, fourth]),
    ]


def test_events_of_several_types_are_one_run_where_they_have_one_function() -> None:
    first, second, third = (delivery("a", handler=handler) for handler in (WHOLE, WHOLE_OF_PAID, WHOLE))
    other, last = delivery("a", handler=OTHER_WHOLE), delivery("b", handler=WHOLE_OF_PAID)
    assert planned(first, second, third, other, last) == [
        HandleRun([first, second, third]),
        HandleRun([other]),
        HandleRun([last]),
    ]


def test_runs_of_two_batch_handlers_are_kept_apart() -> None:
    one, other = delivery("a", handler=WHOLE), delivery("a", handler=OTHER_WHOLE)
    assert planned(one, other) == [HandleRun([one]), HandleRun([other])]


def test_what_waits_is_left_out_of_a_run_and_ends_it() -> None:
    first, waits, last = delivery("a", handler=WHOLE), delivery("b", handler=WHOLE), delivery("c", handler=WHOLE)
    assert planned(first, waits, last, held={"b"}) == [HandleRun([first]), Wait(waits), HandleRun([last])]


def test_duplicates_and_foreign_records_do_not_end_a_run() -> None:
    first, last = delivery("a", handler=WHOLE), delivery("c", handler=WHOLE)
    assert planned(first, Passed(raw(b""), 1), last) == [HandleRun([first, last])]


@each_of(
    ("count", "culprit", "expected"),
    [
        (1, None, [[0]]),
        (1, 0, [[0]]),
        (2, None, [[0], [1]]),
        (5, None, [[0, 1], [2, 3, 4]]),
        (5, 0, [[0], [1, 2, 3, 4]]),
        (5, 2, [[0, 1], [2], [3, 4]]),
        (5, 4, [[0, 1, 2, 3], [4]]),
        (2, 1, [[0], [1]]),
    ],
)
def test_a_failed_batch_is_cut_around_the_culprit_or_in_halves(
    count: int, culprit: int | None, expected: list[list[int]]
) -> None:
    assert [list(range(count))[part] for part in cut(count, culprit)] == expected


def test_cutting_ends_whoever_is_to_blame() -> None:
    """Every part is smaller than the whole, and nothing is left out, doubled or reordered."""
    for count in range(2, 40):
        for culprit in (None, *range(count)):
            parts = [list(range(count))[part] for part in cut(count, culprit)]
            assert list(chain(*parts)) == list(range(count))
            assert all(0 < len(part) < count for part in parts)


def test_what_is_behind_a_culprit_is_taken_in_parts_that_double() -> None:
    parts = [list(range(100))[part] for part in cut(100, 10)]
    assert [len(part) for part in parts] == [10, 1, 8, 16, 32, 33]
    assert list(chain(*parts)) == list(range(100))


@each_of(
    ("count", "culprit", "sizes"),
    [
        (9, 0, [1, 8]),
        (10, 0, [1, 8, 1]),
        (25, 0, [1, 8, 16]),
        (26, 0, [1, 8, 16, 1]),
        (20, 19, [19, 1]),
        (1000, 0, [1, 8, 16, 32, 64, 128, 256, 495]),
    ],
)
def test_the_last_of_the_parts_behind_a_culprit_takes_what_is_left(count: int, culprit: int, sizes: list[int]) -> None:
    parts = [list(range(count))[part] for part in cut(count, culprit)]
    assert [len(part) for part in parts] == sizes
    assert list(chain(*parts)) == list(range(count))
