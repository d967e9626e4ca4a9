"""The chain without a database: whatever is done to a log, it is found; nothing is found in a whole one."""

import json
from collections.abc import Callable
from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surefoot.audit.chain import FIRST_PREVIOUS, MOST_FINDINGS, AuditRow, Chain, Finding, seal_of
from surefoot.audit.record import details_text

pytestmark = pytest.mark.slow


def log_of(count: int) -> list[AuditRow]:
    rows: list[AuditRow] = []
    previous = FIRST_PREVIOUS
    for number in range(1, count + 1):
        at = f"2026-03-01T12:00:00.{number:06}Z"
        row = AuditRow(number, at, "ada", "replay", "done", f"job {number}", "Why not.", "{}", previous)
        row = replace(row, seal=seal_of(row))
        previous = row.seal
        rows.append(row)
    return rows


def found(rows: list[AuditRow], head: tuple[int, bytes] | None = None) -> list[Finding]:
    chain = Chain(head)
    for row in rows:
        chain.follow(row)
    return chain.end()


def renumbered(rows: list[AuditRow]) -> list[AuditRow]:
    return [replace(row, number=number) for number, row in enumerate(rows, start=1)]


def test_the_seal_is_the_hash_of_the_columns_written_down_by_hand() -> None:
    row = AuditRow(1, "2026-03-01T12:00:00.000001Z", "ä", "replay", "done", "job 1", "Why.", '{"a":1}', bytes(32))
    # printf 'surefoot audit v1\n{"about":"job 1",…}' | sha256sum
    assert seal_of(row).hex() == "6c58afd0052bf17d59613648b883e56e31fc2885ddf5cfef63b95a7289c52583"


@given(st.integers(min_value=0, max_value=40))
def test_a_whole_log_is_whole_also_by_each_head_it_ever_had(count: int) -> None:
    rows = log_of(count)
    assert found(rows) == []
    for row in rows:
        assert found(rows, (row.number, row.seal)) == []


@given(st.data())
def test_a_row_changed_in_any_column_is_named(data: st.DataObject) -> None:
    rows = log_of(data.draw(st.integers(min_value=1, max_value=12)))
    place = data.draw(st.integers(min_value=0, max_value=len(rows) - 1))
    column = data.draw(st.sampled_from([field.name for field in fields(AuditRow) if field.name != "number"]))
    before = getattr(rows[place], column)
    after = before + (b"\x00" if isinstance(before, bytes) else "!")
    rows[place] = replace(rows[place], **{column: after})
    assert found(rows) == [Finding("changed", place + 1, place + 1)]


@given(st.data())
def test_any_rows_removed_before_the_end_are_named(data: st.DataObject) -> None:
    rows = log_of(data.draw(st.integers(min_value=2, max_value=12)))
    gone = data.draw(st.sets(st.integers(min_value=1, max_value=len(rows) - 1), min_size=1))
    named = {
        number
        for finding in found([row for row in rows if row.number not in gone])
        for number in range(finding.first, finding.last + 1)
    }
    assert named == gone


@given(st.data())
def test_rows_removed_at_the_end_are_named_by_the_head(data: st.DataObject) -> None:
    rows = log_of(data.draw(st.integers(min_value=1, max_value=12)))
    left = data.draw(st.integers(min_value=0, max_value=len(rows) - 1))
    assert found(rows[:left], (len(rows), rows[-1].seal)) == [Finding("removed", left + 1, len(rows))]


@given(st.data())
def test_two_rows_that_changed_places_are_named(data: st.DataObject) -> None:
    rows = log_of(data.draw(st.integers(min_value=2, max_value=12)))
    one, other = sorted(data.draw(st.sets(st.integers(min_value=0, max_value=len(rows) - 1), min_size=2, max_size=2)))
    rows[one], rows[other] = replace(rows[other], number=one + 1), replace(rows[one], number=other + 1)
    assert found(rows) == [Finding("swapped", one + 1, other + 1)]


@given(st.data())
def test_rows_inserted_with_the_later_ones_renumbered_are_named(data: st.DataObject) -> None:
    rows = log_of(data.draw(st.integers(min_value=1, max_value=12)))
    place = data.draw(st.integers(min_value=0, max_value=len(rows) - 1))
    many = data.draw(st.integers(min_value=1, max_value=3))
    forged = [replace(rows[0], person="eve", about=f"forged {number}") for number in range(many)]
    assert found(renumbered(rows[:place] + forged + rows[place:])) == [Finding("inserted", place + 1, place + many)]


@given(st.data())
def test_rows_removed_with_the_later_ones_renumbered_are_named(data: st.DataObject) -> None:
    rows = log_of(data.draw(st.integers(min_value=3, max_value=12)))
    place = data.draw(st.integers(min_value=0, max_value=len(rows) - 2))
    many = data.draw(st.integers(min_value=1, max_value=len(rows) - 1 - place))
    left = renumbered(rows[:place] + rows[place + many :])
    assert found(left) == [Finding("removed", place + 1, place + many)]


@given(st.data())
def test_whatever_is_done_to_a_log_it_is_not_whole_by_its_head(data: st.DataObject) -> None:
    rows = log_of(data.draw(st.integers(min_value=1, max_value=8)))
    shuffled = data.draw(st.lists(st.sampled_from(rows), max_size=10))
    tampered = renumbered(shuffled)
    head = (len(rows), rows[-1].seal)
    assert (found(tampered, head) == []) == (tampered[: len(rows)] == rows and len(tampered) == len(rows))


def test_a_row_sealed_anew_is_named_by_the_row_after_it() -> None:
    rows = log_of(5)
    rows[2] = replace(rows[2], person="eve")
    rows[2] = replace(rows[2], seal=seal_of(rows[2]))
    assert found(rows) == [Finding("changed", 3, 3)]


def test_a_log_sealed_anew_is_told_by_the_head_alone() -> None:
    rows, other = log_of(5), log_of(4)
    forged = replace(rows[4], person="eve")
    forged = replace(forged, seal=seal_of(forged))
    assert found([*other, forged]) == []
    assert found([*other, forged], (5, rows[4].seal)) == [Finding("other_head", 5, 5)]


def test_findings_are_bounded_and_rows_side_by_side_are_one_finding() -> None:
    rows = [replace(row, person="eve") for row in log_of(3000)]
    assert found(rows) == [Finding("changed", 1, 3000)]
    every_other = [row if row.number % 2 else replace(row, person="eve") for row in log_of(4000)]
    assert MOST_FINDINGS <= len(found(every_other)) <= MOST_FINDINGS + 64


@pytest.mark.parametrize(
    ("finding", "sentence"),
    [
        (Finding("changed", 3, 3), "Row 3 was changed: what is there is not what was sealed."),
        (Finding("removed", 3, 5), "Rows 3 to 5 were removed."),
        (Finding("inserted", 3, 3), "Row 3 was inserted: the rows around it were sealed without it."),
        (Finding("inserted", 3, 4), "Rows 3 to 4 were inserted: the rows around them were sealed without them."),
        (Finding("swapped", 2, 7), "Rows 2 and 7 were swapped: each carries the other's seal."),
    ],
)
def test_a_finding_is_a_sentence(finding: Finding, sentence: str) -> None:
    assert finding.sentence == sentence


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(alphabet=st.characters()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(st.text(alphabet=st.characters()), values, max_size=4))
def test_any_details_become_strict_json_without_what_postgres_refuses(details: dict[str, object]) -> None:
    text = details_text(details)
    json.loads(text, parse_constant=_refuse)
    assert "\x00" not in text
    assert "\\u0000" not in text.replace("\\\\", "")
    text.encode()


def test_details_have_one_text_whatever_order_they_come_in() -> None:
    assert (
        details_text({"b": {2, 1}, "a": (1, "x")})
        == details_text({"a": [1, "x"], "b": {1, 2}})
        == ('{"a":[1,"x"],"b":[1,2]}')
    )


def _refuse(constant: str) -> Callable[[], None]:
    raise AssertionError(f"{constant} is no JSON")
