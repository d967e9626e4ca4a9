"""A test belongs to one of `make test` and `make test-deep`, or is a drill; its markers say so."""

import pytest

from tests.support.targets import DEEP, Target, belongs

TARGETS: list[Target] = ["fast", "test", "deep", "alone", "drills"]


def targets_of(*marks: str) -> list[Target]:
    return [target for target in TARGETS if belongs(target, set(marks))]


def test_a_test_without_marks_is_fast() -> None:
    assert targets_of() == ["fast", "test"]


@pytest.mark.parametrize("mark", ["kafka", "slow"])
def test_what_is_slow_or_needs_a_broker_is_left_out_of_the_fast_tests_only(mark: str) -> None:
    assert targets_of(mark) == ["test"]


@pytest.mark.parametrize("why", DEEP)
def test_each_reason_to_be_deep_moves_a_test_to_the_deep_ones(why: str) -> None:
    assert targets_of(why) == ["deep"]
    assert targets_of(why, "kafka", "slow") == ["deep"]


def test_what_other_tests_would_disturb_runs_by_itself() -> None:
    assert targets_of("alone") == ["alone"]
    assert targets_of("alone", "slow") == ["alone"]


def test_a_drill_runs_in_no_other_target() -> None:
    assert targets_of("drill") == ["drills"]
    assert targets_of("drill", "mutation", "slow") == ["drills"]


def test_without_a_target_everything_but_drills_is_run() -> None:
    assert belongs(None, {"mutation", "kafka"})
    assert belongs(None, {"alone"})
    assert not belongs(None, {"drill"})
