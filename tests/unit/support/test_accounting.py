"""A run whose numbers do not add up fails, and says what is missing."""

import pytest

from tests.support.accounting import Books

pytest_plugins = ["pytester"]
CONFTEST = 'pytest_plugins = ["tests.support.accounting"]'


def test_books_in_which_everything_was_run_or_skipped_have_no_problem() -> None:
    assert Books(collected={"a", "b"}, deselected=3, run={"a"}, skipped={"b"}).problems() == []


def test_a_test_that_was_collected_and_not_run_is_named() -> None:
    assert Books(collected={"a", "b"}, run={"a"}).problems() == ["1 collected tests were not run, among them b."]


def test_a_test_that_was_run_and_not_collected_is_named() -> None:
    books = Books(collected={"a"}, run={"a", "b"})
    assert books.problems() == ["1 tests were run that were not collected, among them b."]


def test_a_run_says_what_it_left_out_and_ran(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile("def test_one(): pass\ndef test_other(): pass\ndef test_third(): pass")
    done = pytester.runpytest_inprocess("-k", "one or other", "-p", "no:cacheprovider", "-p", "no:asyncio")
    done.stdout.fnmatch_lines(["collected 3 = left out 1 + run 2 + skipped 0; *"])
    assert done.ret == 0


def test_two_tests_of_one_node_id_are_refused(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        CONFTEST
        + """
def pytest_collection_modifyitems(items):
    items.append(items[0])
"""
    )
    pytester.makepyfile("def test_one(): pass")
    done = pytester.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:asyncio")
    done.stderr.fnmatch_lines(["*1 node ids stand for several tests*"])
    assert done.ret == pytest.ExitCode.USAGE_ERROR


def test_a_run_that_loses_a_test_fails(pytester: pytest.Pytester) -> None:
    """A plugin drops a test behind the collection, as pytest-xdist does with a repeated id."""
    pytester.makeconftest(
        CONFTEST
        + """
def pytest_runtestloop(session):
    del session.items[0]
"""
    )
    pytester.makepyfile("def test_one(): pass\ndef test_other(): pass")
    done = pytester.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:asyncio")
    done.stdout.fnmatch_lines(["1 collected tests were not run, among them *test_one."])
    assert done.ret == pytest.ExitCode.TESTS_FAILED
