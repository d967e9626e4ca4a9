"""A corpus that is one test hides nothing: each failed case is listed, and no case is left out."""

from collections.abc import Callable

import pytest

from tests.support.corpus import MOST_SHOWN, check_each, each_of


def passes() -> None:
    pass


def fails(said: str) -> Callable[[], None]:
    def check() -> None:
        raise AssertionError(said)

    return check


def raises_nothing() -> None:
    with pytest.raises(ValueError, match="never raised"):
        passes()


def test_a_corpus_without_failures_passes() -> None:
    check_each([("one", passes), ("two", passes)])


def test_every_case_that_failed_is_listed_with_the_first_line_of_its_error() -> None:
    cases = [("one", fails("1 == 2\nand more")), ("two", passes), ("three", raises_nothing), ("four", lambda: [][0])]
    with pytest.raises(AssertionError) as failed:
        check_each(cases)
    assert str(failed.value).splitlines() == [
        "3 of 4 cases failed:",
        "  one: AssertionError: 1 == 2",
        "  three: Failed: DID NOT RAISE ValueError",
        "  four: IndexError: list index out of range",
    ]


def test_all_cases_are_run_although_the_first_fails() -> None:
    ran: list[str] = []
    with pytest.raises(AssertionError):
        check_each([("one", fails("no")), ("two", lambda: ran.append("two")), ("three", lambda: ran.append("three"))])
    assert ran == ["two", "three"]


def test_the_traceback_of_the_first_failure_is_kept() -> None:
    with pytest.raises(AssertionError) as failed:
        check_each([("one", fails("the first")), ("two", fails("the second"))])
    assert str(failed.value.__cause__) == "the first"


def test_of_many_failures_the_first_are_shown_and_the_others_counted() -> None:
    with pytest.raises(AssertionError) as failed:
        check_each((str(number), fails("no")) for number in range(100))
    lines = str(failed.value).splitlines()
    assert lines[0] == "100 of 100 cases failed:"
    assert (len(lines), lines[MOST_SHOWN], lines[-1]) == (32, "  29: AssertionError: no", "  and 70 more")


def test_an_empty_corpus_fails() -> None:
    with pytest.raises(AssertionError, match="empty"):
        check_each([])


def test_an_empty_table_fails() -> None:
    @each_of("number", [])
    def test(number: int) -> None:
        pass

    with pytest.raises(AssertionError, match="empty"):
        test()


def test_a_table_that_has_lost_a_row_is_refused() -> None:
    with pytest.raises(AssertionError, match="There are 2 rows, and 3 are expected"):
        each_of("number", [1, 2], expected=3)


def test_ctrl_c_ends_the_corpus_at_once() -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        check_each([("one", interrupted), ("two", passes)])


@pytest.fixture
def three() -> int:
    return 3


@each_of(("number", "square"), [(1, 1), (2, 4)])
def test_the_rows_of_a_table_have_their_values_and_the_fixtures(number: int, square: int, three: int) -> None:
    assert (number**2, three) == (square, 3)


def test_each_row_of_a_table_is_run_once() -> None:
    ran: list[tuple[int, str, int]] = []

    @each_of(("number", "text"), [(1, "a"), pytest.param(2, "b", id="the second")])
    def test(number: int, text: str, three: int) -> None:
        ran.append((number, text, three))

    test(three=3)
    assert ran == [(1, "a", 3), (2, "b", 3)]


def test_a_row_that_failed_is_named_by_its_id_or_its_values() -> None:
    @each_of(("number", "text"), [(1, "a"), pytest.param(2, "b", id="the second")])
    def test(number: int, text: str) -> None:
        assert not number, "no"

    with pytest.raises(AssertionError) as failed:
        test()
    assert [line.partition(":")[0].strip() for line in str(failed.value).splitlines()[1:]] == ["1, 'a'", "the second"]


async def test_rows_that_are_awaited_are_all_run_too() -> None:
    @each_of("number", [1, 2, 3])
    async def test(number: int) -> None:
        assert number == 2, "no"

    with pytest.raises(AssertionError, match="2 of 3 cases failed"):
        await test()
