"""What a seal is over, and what a broken one says."""

import hashlib
from dataclasses import replace
from typing import Any

from surefoot.idempotency.store.seals import NOTHING_SEALED, Chain, Line, Seal, Verified, fits, next_seal, whole_range


def line(number: int, *, at: str | None = None, details: str = "{}") -> Line:
    return Line(number, at or f"2026-03-01T12:00:00.{number:06d}Z", "ab", "shop", 1, "claimed", details)


FIRST = [line(1), line(2)]
SECOND = [line(3), line(4), line(5)]
SEAL_1 = next_seal(NOTHING_SEALED, "2026-03-01T12:00:00.000003Z", FIRST)
SEAL_2 = next_seal(SEAL_1, "2026-03-01T12:00:00.000009Z", SECOND)


def verified(*seals: tuple[Seal, list[Line]], past: bool = False, head: tuple[int, str] | None = None) -> Verified:
    chain = Chain(head)
    for seal, lines in seals:
        chain.follow(seal, lines, is_past=past)
    return chain.end()


def test_a_seal_is_what_it_was() -> None:
    """Written down, so that a history sealed by one version can be verified by the next, or by a script."""
    zeros = "00" * 32
    text = (
        "surefoot idempotency history v1\n"
        f'[1,"-infinity","2026-03-01T12:00:00.000003Z",2,"{zeros}"]\n'
        '[1,"2026-03-01T12:00:00.000001Z","ab","shop",1,"claimed","{}"]\n'
        '[2,"2026-03-01T12:00:00.000002Z","ab","shop",1,"claimed","{}"]\n'
    )
    assert SEAL_1.seal == hashlib.sha256(text.encode()).digest()
    assert (SEAL_1.number, SEAL_1.after, SEAL_1.rows, SEAL_1.previous) == (1, "-infinity", 2, bytes(32))
    assert (SEAL_2.number, SEAL_2.after, SEAL_2.rows, SEAL_2.previous) == (2, SEAL_1.until, 3, SEAL_1.seal)


def test_a_whole_history_has_nothing_to_say() -> None:
    assert verified((SEAL_1, FIRST), (SEAL_2, SECOND)) == Verified((), 2, 5, 0, (2, SEAL_2.seal.hex()))
    assert verified() == Verified((), 0, 0, 0, None)


def test_every_part_of_a_line_is_sealed() -> None:
    for part in Line._fields:
        changes: dict[str, Any] = {part: 9 if part in ("number", "fence") else "other"}
        other = FIRST[0]._replace(**changes)
        assert not fits(SEAL_1, [other, FIRST[1]]), part


def test_every_part_of_a_seal_is_sealed() -> None:
    for changed in (
        replace(SEAL_2, number=3),
        replace(SEAL_2, after="2026-03-01T12:00:00.000002Z"),
        replace(SEAL_2, until="2026-03-01T12:00:00.000010Z"),
        replace(SEAL_2, rows=4),
        replace(SEAL_2, previous=bytes(32)),
        replace(SEAL_2, seal=bytes(32)),
    ):
        assert not fits(changed, SECOND)


def test_every_change_is_named_by_its_seal() -> None:
    changed = [SECOND[0], line(4, details='{"status":200}'), SECOND[2]]
    for seals, finding in [
        ([(SEAL_1, FIRST), (SEAL_2, changed)],
         "Seal 2 (lines before 2026-03-01T12:00:00.000009Z) was made over 3 lines, and they are not what was sealed: "
         "a line, or the seal, was changed."),
        ([(SEAL_1, FIRST), (SEAL_2, SECOND[1:])], "was made over 3 lines, and 2 are there: 1 or more were removed"),
        ([(SEAL_1, [*FIRST, line(9)]), (SEAL_2, SECOND)], "made over 2 lines, and 3 are there: 1 or more were added"),
        ([(SEAL_2, SECOND)], "After seal 0 comes seal 2: what was between was removed."),
    ]:  # fmt: skip
        (found,) = verified(*seals).findings
        assert finding in found


def test_a_history_that_was_sealed_anew_does_not_fit_the_seal_that_was_written_down() -> None:
    forged = next_seal(NOTHING_SEALED, SEAL_1.until, [line(1, details='{"x":1}'), line(2)])
    assert verified((forged, [line(1, details='{"x":1}'), line(2)])).is_whole
    (finding,) = verified((forged, [line(1, details='{"x":1}'), line(2)]), head=(1, SEAL_1.seal.hex())).findings
    assert "not the one that was written down" in finding


def test_an_end_that_was_cut_off_does_not_reach_the_seal_that_was_written_down() -> None:
    (finding,) = verified((SEAL_1, FIRST), head=(2, SEAL_2.seal.hex())).findings
    assert finding.startswith("Seal 2 was written down elsewhere, and the last one here is 1")


def test_a_seal_put_in_place_of_another_does_not_follow() -> None:
    forged = next_seal(replace(SEAL_1, seal=bytes(32)), SEAL_2.until, SECOND)
    (finding,) = verified((SEAL_1, FIRST), (forged, SECOND)).findings
    assert finding == "Seal 2 does not follow seal 1 as it is now: one of the two was changed."


def test_the_oldest_lines_may_be_gone_when_they_are_old_enough() -> None:
    assert verified((SEAL_1, []), (SEAL_2, SECOND), past=True) == Verified((), 2, 3, 1, (2, SEAL_2.seal.hex()))
    assert verified((SEAL_1, []), (SEAL_2, []), past=True).pruned == 2
    assert not verified((SEAL_1, []), (SEAL_2, SECOND)).is_whole


def test_but_not_those_after_lines_that_are_there_nor_a_part_of_them() -> None:
    assert not verified((SEAL_1, FIRST), (SEAL_2, []), past=True).is_whole
    assert not verified((SEAL_1, FIRST[1:]), (SEAL_2, SECOND), past=True).is_whole


def test_a_range_ends_before_the_first_line_that_is_too_many() -> None:
    lines = [line(1), line(2), line(3)]
    assert whole_range(lines, "end", 3) == (lines, "end")
    assert whole_range(lines, "end", 2) == (lines[:2], lines[2].at)


def test_lines_of_one_time_stay_together() -> None:
    lines = [line(1), line(2, at="t"), line(3, at="t")]
    assert whole_range(lines, "end", 2) == (lines[:1], "t")
    assert whole_range([line(1, at="t"), line(2, at="t")], "end", 1) == ([], "t")
