"""The history reads as a chain: each note has the status before and after what it notes."""

from tests.support.saga.engine_driver import Driven
from tests.support.saga.order_sagas import order_saga, pickup_saga

ORDER = order_saga().definition


def lines(saga: Driven) -> list[str]:
    return [f"{note.kind} {note.before}>{note.after}" for note in saga.last.notes]


def test_a_refusal_shows_where_the_saga_turned() -> None:
    assert lines(Driven(ORDER).done("reserve").refused("pay")) == [
        "REFUSED RUNNING>RUNNING",
        "COMPENSATING RUNNING>COMPENSATING",
        "SENT COMPENSATING>COMPENSATING",
    ]


def test_the_end_shows_what_it_came_from() -> None:
    saga = Driven(ORDER).done("reserve").refused("pay").undone("reserve")
    assert lines(saga) == ["UNDONE COMPENSATING>COMPENSATING", "COMPENSATED COMPENSATING>COMPENSATED"]


def test_the_reply_that_frees_a_stuck_saga_shows_it() -> None:
    saga = Driven(ORDER).done("reserve").done("pay").failed("confirm")
    assert lines(saga) == ["FAILED RUNNING>RUNNING", "STUCK RUNNING>STUCK"]
    assert lines(saga.done("confirm")) == ["DONE STUCK>RUNNING", "SENT RUNNING>RUNNING"]


def test_an_undo_that_frees_a_stuck_saga_shows_it() -> None:
    saga = Driven(ORDER).done("reserve").refused("pay").never_answers().undone("reserve")
    assert lines(saga) == ["UNDONE STUCK>COMPENSATING", "COMPENSATED COMPENSATING>COMPENSATED"]


def test_a_retry_and_a_skip_show_that_they_freed_it() -> None:
    saga = Driven(ORDER).done("reserve").done("pay").failed("confirm").operate("retry")
    assert lines(saga) == ["RETRIED STUCK>RUNNING", "SENT RUNNING>RUNNING"]
    saga = Driven(pickup_saga().definition).done("reserve").time_passes()
    assert lines(saga) == ["LATE RUNNING>RUNNING", "STUCK RUNNING>STUCK"]
    assert lines(saga.operate("retry")) == ["RETRIED STUCK>RUNNING"]
    assert lines(saga.time_passes().operate("skip")) == ["SKIPPED STUCK>RUNNING", "SENT RUNNING>RUNNING"]


def test_pause_and_resume_show_both_sides() -> None:
    saga = Driven(ORDER).done("reserve").refused("pay").operate("pause")
    assert lines(saga) == ["PAUSED COMPENSATING>PAUSED"]
    assert lines(saga.undone("reserve")) == ["HELD PAUSED>PAUSED"]
    assert lines(saga.operate("resume")) == [
        "RESUMED PAUSED>COMPENSATING",
        "UNDONE COMPENSATING>COMPENSATING",
        "COMPENSATED COMPENSATING>COMPENSATED",
    ]


def test_what_is_held_is_noted_with_its_attempt() -> None:
    (note,) = Driven(ORDER).operate("pause").done("reserve").last.notes
    assert (note.step, note.direction, note.attempt, note.sentence) == (
        "reserve",
        "do",
        1,
        "done: it acts when the saga is resumed",
    )
