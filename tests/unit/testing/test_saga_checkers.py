"""Each checker of sagas finds the violation planted for it, and nothing in what is right."""

import pytest

from tests.support.checkers.saga import Line, Plan, SagaEffect, SagaRow, cancelled_by_outage, check_sagas

PLANS = {("trip", 1): Plan(("book", "charge", "confirm"), pivot="confirm")}
COMPLETED = ["do book", "do charge", "do confirm"]
UNDONE = ["do book", "do charge", "undo charge", "undo book"]


def saga(status: str, *, step: str | None = None, saga_id: str = "s-1", start: str = "e-1") -> SagaRow:
    return SagaRow(saga_id, "trip", 1, "t-1", start, status, step)


def history(*lines: str, saga_id: str = "s-1") -> list[Line]:
    """Each as `KIND before after`, or `SENT step direction attempt before after`."""
    found = []
    for order, line in enumerate(lines):
        kind, *words = line.split()
        step, direction, attempt = (words[0], words[1], int(words[2])) if len(words) > 2 else (None, None, None)
        found.append(Line(saga_id, order, kind, step, direction, attempt, words[-2], words[-1]))
    return found


WELL = history("STARTED RUNNING RUNNING", "SENT book do 1 RUNNING RUNNING", "COMPLETED RUNNING COMPLETED")
GIVEN_UP = history(
    "STARTED RUNNING RUNNING", "COMPENSATING RUNNING COMPENSATING", "COMPENSATED COMPENSATING COMPENSATED"
)


def effects(*done: str, saga_id: str = "s-1") -> list[SagaEffect]:
    """Each as `do book`, in order."""
    return [SagaEffect(saga_id, one.split()[1], one.split()[0], order) for order, one in enumerate(done)]


def violations(row: SagaRow, lines: list[Line], done: list[str]) -> list[str]:
    return [finding.violation for finding in check_sagas([row], lines, effects(*done), PLANS)]


def test_nothing_is_found_in_a_saga_that_was_completed() -> None:
    assert violations(saga("COMPLETED"), WELL, COMPLETED) == []


def test_nothing_is_found_in_a_saga_that_was_undone() -> None:
    assert violations(saga("COMPENSATED"), GIVEN_UP, UNDONE) == []


def test_an_undo_of_what_may_not_have_been_done_is_right() -> None:
    assert violations(saga("COMPENSATED"), GIVEN_UP, ["do book", "undo charge", "undo book"]) == []


def test_nothing_is_found_in_a_saga_that_failed_with_nothing_to_undo() -> None:
    lines = history("STARTED RUNNING RUNNING", "COMPENSATING RUNNING COMPENSATING", "ENDED_FAILED COMPENSATING FAILED")
    assert violations(saga("FAILED"), lines, []) == []


def test_a_stuck_saga_is_finished_as_long_as_somebody_can_see_where() -> None:
    lines = history("STARTED RUNNING RUNNING", "STUCK RUNNING STUCK")
    assert violations(saga("STUCK", step="confirm"), lines, ["do book", "do charge"]) == []
    assert violations(saga("STUCK"), lines, ["do book", "do charge"]) == ["unfinished"]


@pytest.mark.parametrize("status", ["RUNNING", "COMPENSATING", "PAUSED"])
def test_a_saga_that_has_not_ended_is_unfinished(status: str) -> None:
    lines = history("STARTED RUNNING RUNNING", f"SENT RUNNING {status}")
    assert violations(saga(status, step="book"), lines, []) == ["unfinished"]


def test_a_completed_saga_without_one_of_its_effects() -> None:
    assert violations(saga("COMPLETED"), WELL, ["do book", "do confirm"]) == ["effect_missing"]


def test_an_effect_that_happened_twice() -> None:
    assert violations(saga("COMPLETED"), WELL, [*COMPLETED, "do book"]) == ["repeated"]


def test_an_undo_that_happened_twice() -> None:
    assert violations(saga("COMPENSATED"), GIVEN_UP, [*UNDONE, "undo charge"]) == ["repeated"]


def test_a_completed_saga_of_which_something_was_undone() -> None:
    done = ["do book", "do charge", "undo book", "do confirm"]
    assert violations(saga("COMPLETED"), WELL, done) == ["undone_though_completed", "undone_after_pivot"]


def test_an_effect_that_was_not_undone() -> None:
    assert violations(saga("COMPENSATED"), GIVEN_UP, ["do book", "do charge", "undo book"]) == ["not_undone"]


def test_an_effect_that_came_after_its_undo() -> None:
    done = ["do book", "undo charge", "undo book", "do charge"]
    assert violations(saga("COMPENSATED"), GIVEN_UP, done) == ["not_undone"]


def test_undos_in_the_order_of_what_they_undo() -> None:
    assert violations(saga("COMPENSATED"), GIVEN_UP, ["do book", "do charge", "undo book", "undo charge"]) == [
        "undo_order"
    ]


def test_an_undo_behind_the_pivot() -> None:
    lines = history("STARTED RUNNING RUNNING", "STUCK RUNNING STUCK")
    assert violations(saga("STUCK", step="confirm"), lines, [*COMPLETED, "undo charge"]) == ["undone_after_pivot"]


@pytest.mark.parametrize(
    "lines",
    [
        [],
        ["COMPLETED RUNNING COMPLETED"],
        ["STARTED RUNNING RUNNING", "STARTED RUNNING RUNNING", "COMPLETED RUNNING COMPLETED"],
        ["STARTED RUNNING RUNNING", "COMPENSATING RUNNING COMPENSATING", "COMPLETED RUNNING COMPLETED"],
        ["STARTED RUNNING RUNNING", "COMPLETED RUNNING COMPLETED", "SENT COMPLETED COMPLETED"],
        ["STARTED RUNNING RUNNING", "COMPLETED RUNNING COMPLETED", "COMPLETED COMPLETED COMPLETED"],
        ["STARTED RUNNING RUNNING", "SENT RUNNING RUNNING"],
        ["STARTED RUNNING RUNNING", "SENT RUNNING COMPLETED"],
        ["STARTED RUNNING RUNNING", "COMPENSATED RUNNING COMPLETED"],
        [
            "STARTED RUNNING RUNNING",
            "SENT book do 1 RUNNING RUNNING",
            "SENT book do 1 RUNNING RUNNING",
            "COMPLETED RUNNING COMPLETED",
        ],
    ],
    ids=[
        "none at all",
        "no beginning",
        "two beginnings",
        "a broken chain",
        "something behind the end",
        "two ends",
        "another status",
        "an end without its line",
        "the wrong end",
        "an attempt sent twice",
    ],
)
def test_a_history_that_cannot_be(lines: list[str]) -> None:
    assert set(violations(saga("COMPLETED"), history(*lines), COMPLETED)) == {"history_broken"}


def test_what_is_ignored_after_the_end_breaks_nothing() -> None:
    lines = [*WELL, WELL[-1]._replace(order=9, kind="IGNORED", before="COMPLETED", after="COMPLETED")]
    assert violations(saga("COMPLETED"), lines, COMPLETED) == []


def test_two_sagas_of_one_start_event() -> None:
    both = [saga("COMPLETED"), saga("COMPLETED", saga_id="s-2")]
    lines = [*WELL, *(line._replace(saga_id="s-2") for line in WELL)]
    done = [*effects(*COMPLETED), *effects(*COMPLETED, saga_id="s-2")]
    assert [finding.violation for finding in check_sagas(both, lines, done, PLANS)] == ["started_twice"]
    other = [saga("COMPLETED"), saga("COMPLETED", saga_id="s-2", start="e-2")]
    assert check_sagas(other, lines, done, PLANS) == []


@pytest.mark.parametrize("status", ["COMPENSATING", "COMPENSATED", "FAILED"])
def test_a_saga_given_up_where_nobody_failed(status: str) -> None:
    assert [finding.violation for finding in cancelled_by_outage([saga(status)], [])] == ["cancelled_by_outage"]


def test_a_saga_that_was_given_up_and_is_stuck_by_now() -> None:
    lines = history("STARTED RUNNING RUNNING", "COMPENSATING RUNNING COMPENSATING", "STUCK COMPENSATING STUCK")
    assert [one.violation for one in cancelled_by_outage([saga("STUCK", step="book")], lines)] == [
        "cancelled_by_outage"
    ]


def test_a_saga_that_nobody_has_given_up() -> None:
    assert cancelled_by_outage([saga("RUNNING", step="book"), saga("COMPLETED")], WELL) == []
