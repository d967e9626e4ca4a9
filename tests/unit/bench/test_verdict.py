"""What `make bench-quick` says of given rounds."""

import pytest

from bench.quick.verdict import Cost, Ratio, Round, disregarded, judge, ratio


def rounds(processor: list[float], statements: list[float] | None = None) -> list[Round]:
    """Rounds with these ratios, on a base that costs 80 µs and 2 statements for a unit."""
    of_statements = statements or [1.0] * len(processor)
    return [Round(Cost(80.0, 2.0), Cost(80.0 * p, 2.0 * s)) for p, s in zip(processor, of_statements, strict=True)]


def test_a_ratio_is_that_of_the_working_tree_to_the_base() -> None:
    assert ratio([(100.0, 120.0), (100.0, 130.0), (200.0, 220.0)]).median == 1.2


def test_of_ten_rounds_the_range_leaves_out_the_lowest_and_the_highest() -> None:
    found = ratio([(1.0, tree) for tree in (0.2, 0.9, 0.95, 1.0, 1.0, 1.0, 1.0, 1.05, 1.1, 7.0)])
    assert found == Ratio(median=1.0, low=0.9, high=1.1)


@pytest.mark.parametrize(("count", "at_each_end"), [(2, 0), (5, 0), (6, 0), (8, 0), (9, 1), (10, 1), (12, 2), (20, 5)])
def test_the_range_leaves_out_as_many_rounds_as_95_percent_confidence_allows(count: int, at_each_end: int) -> None:
    assert disregarded(count) == at_each_end


def test_the_same_cost_is_no_slower() -> None:
    assert judge(rounds([1.0] * 10)).reasons == ()


def test_a_range_that_includes_the_allowed_ratio_is_no_slower() -> None:
    assert not judge(rounds([1.0, 1.03, *[1.2] * 8])).is_slower


def test_a_range_that_is_all_above_the_allowed_ratio_is_slower() -> None:
    verdict = judge(rounds([1.04, 1.04, *[1.2] * 8]))
    assert verdict.is_slower
    assert verdict.reasons == ("20% more processor time",)


def test_one_disturbed_round_does_not_hide_a_slowdown() -> None:
    assert judge(rounds([0.7, *[1.2] * 9])).is_slower


def test_disturbed_rounds_do_not_make_a_path_slower() -> None:
    assert not judge(rounds([*[1.0] * 5, *[1.8] * 5])).is_slower


def test_more_statements_are_slower_even_if_the_processor_time_is_the_same() -> None:
    verdict = judge(rounds([1.0] * 10, [1.25] * 10))
    assert verdict.reasons == ("25% more statements",)


def test_the_median_of_the_statements_decides() -> None:
    assert not judge(rounds([1.0] * 10, [*[1.03] * 6, *[1.1] * 4])).is_slower
    assert judge(rounds([1.0] * 10, [*[1.0] * 4, *[1.04] * 6])).is_slower


def test_a_faster_tree_is_no_slower() -> None:
    assert not judge(rounds([0.5] * 10, [0.5] * 10)).is_slower


def test_a_slowdown_is_visible_from_where_its_range_would_be_above_the_allowed_ratio() -> None:
    quiet, noisy = judge(rounds([1.0] * 10)), judge(rounds([0.8, 0.8, *[1.0] * 8]))
    assert quiet.visible_from == pytest.approx(0.03)
    assert noisy.visible_from == pytest.approx(1.03 / 0.8 - 1)


def test_both_reasons_are_told() -> None:
    assert judge(rounds([1.5] * 10, [2.0] * 10)).reasons == ("50% more processor time", "100% more statements")
