"""What an answer means: each line of the table, and what is not in it."""

from typing import get_args

from surefoot.consumer.contracts import Action, Answer
from surefoot.dlq.jobs.policy import Decided, Settlement, counts_as, resolution, settled
from tests.support.corpus import each_of

# kind, answer, what the inbox says, what the letter becomes, what it counts as
TABLE: list[tuple[Action, Answer, str | None, Settlement | None, str]] = [
    ("replay", "done", "PROCESSED", "REPLAYED", "ok"),
    ("replay", "already_done", "PROCESSED", "REPLAYED", "ok"),
    ("replay", "already_settled", "DISCARDED", "DISCARDED", "ok"),
    ("replay", "already_settled", "SUPERSEDED", "SUPERSEDED", "ok"),
    ("replay", "already_settled", "BARRED", "REPLAYED", "ok"),
    ("replay", "failed_again", "DEAD", "OPEN", "failed"),
    ("replay", "not_dead", "PARKED", "OPEN", "failed"),
    ("replay", "unknown", None, "OPEN", "failed"),
    ("replay", "refused", "DEAD", "OPEN", "failed"),
    ("discard", "discarded", "DISCARDED", "DISCARDED", "ok"),
    ("discard", "unknown", None, "DISCARDED", "ok"),
    ("discard", "already_done", "PROCESSED", "REPLAYED", "ok"),
    ("discard", "already_settled", "DISCARDED", "DISCARDED", "ok"),
    ("discard", "already_settled", "SUPERSEDED", "SUPERSEDED", "ok"),
    ("discard", "already_settled", "BARRED", "REPLAYED", "ok"),
    ("discard", "not_dead", "PARKED", "OPEN", "failed"),
    ("discard", "refused", "DEAD", "OPEN", "failed"),
    ("supersede", "done", "PROCESSED", "SUPERSEDED", "ok"),
    ("supersede", "failed_again", "DEAD", "SUPERSEDED", "failed"),
    ("supersede", "refused", "DEAD", "OPEN", "failed"),
    ("supersede", "not_dead", "PARKED", "OPEN", "failed"),
    ("supersede", "unknown", None, "OPEN", "failed"),
    ("supersede", "already_done", "PROCESSED", "REPLAYED", "failed"),
    ("supersede", "already_settled", "DISCARDED", "DISCARDED", "failed"),
    ("supersede", "already_settled", "SUPERSEDED", "SUPERSEDED", "failed"),
    ("supersede", "already_settled", "BARRED", "REPLAYED", "failed"),
    ("inspect", "inspected", "DEAD", None, "ok"),
    ("inspect", "unknown", None, None, "ok"),
]
IN_THE_TABLE = {(kind, answer) for kind, answer, *_ in TABLE}


@each_of(("kind", "answer", "outcome", "becomes", "counts"), TABLE)
def test_each_line_of_the_table(
    kind: Action, answer: Answer, outcome: str | None, becomes: Settlement | None, counts: str
) -> None:
    assert settled(kind, answer, outcome) == becomes
    assert counts_as(kind, answer) == counts


@each_of(
    ("kind", "answer"),
    [
        (kind, answer)
        for kind in ("replay", "discard", "supersede")
        for answer in get_args(Answer)
        if (kind, answer) not in IN_THE_TABLE
    ],
    expected=7,
)
def test_an_answer_that_does_not_belong_to_the_question_leaves_the_letter_open_and_is_a_failure(
    kind: Action, answer: Answer
) -> None:
    assert settled(kind, answer, None) == "OPEN"
    assert counts_as(kind, answer) == "failed"


@each_of("answer", get_args(Answer), expected=9)
def test_whatever_a_dry_run_hears_changes_nothing(answer: Answer) -> None:
    assert settled("inspect", answer, "DEAD") is None
    assert counts_as("inspect", answer) == "ok"


def test_a_resolution_says_who_why_and_what_the_consumer_said() -> None:
    said = resolution(
        Decided("ada", "the price list is there now."),
        "REPLAYED",
        consumer="warehouse",
        answer="done",
        sentence="Its effect has been had.",
    )
    assert said == "Replayed by ada: the price list is there now. warehouse says: done. Its effect has been had."


def test_a_resolution_names_both_people_of_a_discard() -> None:
    said = resolution(
        Decided("ada", "test data", approved_by="grace"),
        "DISCARDED",
        consumer="warehouse",
        answer="discarded",
        sentence="It will not be tried again.",
    )
    assert said == (
        "Discarded by ada, approved by grace: test data. warehouse says: discarded. It will not be tried again."
    )


def test_a_letter_that_is_open_again_has_no_resolution() -> None:
    decided = Decided("ada", "try it")
    assert resolution(decided, "OPEN", consumer="warehouse", answer="failed_again", sentence="No.") is None


def test_a_resolution_is_a_text_that_postgres_takes() -> None:
    decided = Decided("ada", "because\x00")
    said = resolution(decided, "REPLAYED", consumer="warehouse", answer="done", sentence="x" * 10_000)
    assert said is not None
    assert "\x00" not in said
    assert len(said) == 3000
