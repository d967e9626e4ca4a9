"""Which dead letters are meant: what is asked is put into SQL, and nothing else."""

from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import ValidationError

from surefoot.dlq.letters import pages as cursors
from surefoot.dlq.letters.filters import Filter
from surefoot.dlq.letters.pages import BadCursor
from tests.support.corpus import each_of

ID = "0192f0c1-7a3e-7c41-9d0a-6f1f0d6f3b11"


def test_an_empty_filter_has_no_condition() -> None:
    assert Filter().where("e") == ([], [])


def test_each_text_is_a_parameter() -> None:
    wanted = Filter(consumer="warehouse", key="'; DROP TABLE x", correlation_id="flow")
    assert wanted.where("e") == (
        ["e.consumer = $1::text", "e.key = $2::text", "e.correlation_id = $3::text"],
        ["warehouse", "'; DROP TABLE x", "flow"],
    )


def test_parameters_go_on_from_another_number() -> None:
    assert Filter(saga_id="s").where("d", first=4) == (["d.saga_id = $4::text"], ["s"])


def test_the_status_is_one_of_a_fixed_list_and_needs_no_parameter() -> None:
    assert Filter(status="OPEN").where("e") == (["e.status = 'OPEN'"], [])


@each_of("field", ["consumer", "event_type", "error", "reason", "fingerprint", "key", "saga_id"])
def test_a_nul_matches_nothing_instead_of_breaking_the_statement(field: str) -> None:
    assert Filter(**{field: "a\x00b"}).where("e") == (["false"], [])


def test_the_empty_type_means_records_that_are_no_events() -> None:
    assert Filter(event_type="").where("e") == (["e.event_type IS NULL"], [])


def test_an_error_is_known_by_its_whole_name_or_its_last_part() -> None:
    conditions, values = Filter(error="NoSuchArticle").where("e")
    assert values == ["NoSuchArticle"]
    assert conditions == ["(e.error_type = $1::text OR right(e.error_type, length($1::text) + 1) = '.' || $1::text)"]


def test_times_are_taken_to_utc() -> None:
    wanted = Filter.model_validate({"failed_after": "2026-11-16T13:00:00+01:00"})
    assert wanted.where("e") == (["$1::timestamptz <= e.failed_at"], [datetime(2026, 11, 16, 12, tzinfo=UTC)])


@each_of(
    "asked",
    [
        {"failed_after": "0001-01-01T00:00:00+14:00"},
        {"failed_before": "9999-12-31T23:59:59-14:00"},
        {"failed_after": "2026-11-16T13:00:00"},
        {"status": "DEAD"},
        {"statuss": "OPEN"},
        {"key": "x" * 2001},
    ],
)
def test_what_cannot_be_used_is_refused(asked: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Filter.model_validate(asked)


def test_a_place_in_time_is_the_same_when_it_comes_back() -> None:
    time = datetime(2026, 11, 16, 12, 0, 0, 123457, tzinfo=UTC)
    assert cursors.by_time(cursors.timed(time, ID)) == (time, cursors.by_id(ID))
    assert cursors.by_time_and_text(cursors.timed(time, "f_1")) == (time, "f_1")


def test_a_time_before_1970_is_a_place_too() -> None:
    time = datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)
    assert cursors.timed(time, "f") == "-1_f"
    assert cursors.by_time_and_text("-1_f") == (time, "f")


@each_of("after", ["", "x", "12", f"_{ID}", "1_", "999999999999999999_f", "1_a\x00", "٣_f", "1_f" * 90])
def test_a_place_in_time_that_is_none_is_refused_with_a_sentence(after: str) -> None:
    with pytest.raises(BadCursor, match="must be the `next` of a page"):
        cursors.by_time_and_text(after)


@pytest.mark.parametrize("after", ["", "x", f"1_{ID}", ID + "0", "\x00"])
def test_an_id_that_is_none_is_refused_with_a_sentence(after: str) -> None:
    with pytest.raises(BadCursor, match="Begin again without it"):
        cursors.by_id(after)
