"""What a failure means: said by the handler, by the consumer, or by the database's code."""

import pytest

from surefoot.consumer import DependencyDown, Permanent, Transient
from surefoot.consumer.failures import FailureClass, Rules, causes, classify
from surefoot.errors import EventTooLarge, InvalidEvent, UndeclaredEvent
from tests.support.corpus import each_of


class WithState(Exception):
    """As a driver raises it: the code is an attribute."""

    def __init__(self, sqlstate: str | None) -> None:
        super().__init__(sqlstate)
        self.sqlstate = sqlstate


class Wrapped(Exception):
    """As SQLAlchemy raises it: the driver's error is `orig`."""

    def __init__(self, orig: BaseException, *, connection_invalidated: bool = False) -> None:
        super().__init__("wrapped")
        self.orig = orig
        self.connection_invalidated = connection_invalidated


def driver_error(name: str, module: str = "asyncpg.exceptions._base") -> Exception:
    made: Exception = type(name, (Exception,), {"__module__": module})()
    return made


@each_of(
    ("error", "expected"),
    [
        (Permanent(), "permanent"),
        (InvalidEvent(), "permanent"),
        (EventTooLarge(), "permanent"),
        (UndeclaredEvent(), "permanent"),
        (Transient(), "transient"),
        (DependencyDown(), "dependency"),
        (ValueError("whatever"), "transient"),
    ],
)
def test_what_a_handler_says_is_what_it_means(error: Exception, expected: FailureClass) -> None:
    assert classify(error, Rules()) == expected


@each_of(
    ("sqlstate", "expected"),
    [
        ("40P01", "contended"),
        ("40001", "contended"),
        ("55P03", "contended"),
        ("08006", "database"),
        ("53300", "database"),
        ("57P01", "database"),
        ("57P03", "database"),
        ("25P03", "database"),
        ("57014", "transient"),  # a statement that was cancelled
        ("23505", "transient"),  # a unique violation
        ("22P05", "transient"),  # a NUL in a text
        (None, "transient"),
    ],
)
def test_the_databases_code_tells(sqlstate: str | None, expected: FailureClass) -> None:
    assert classify(WithState(sqlstate), Rules()) == expected
    assert classify(Wrapped(WithState(sqlstate)), Rules()) == expected


def test_a_lost_connection_has_no_code_and_is_known_by_its_type() -> None:
    for name in ("InterfaceError", "InternalClientError", "ConnectionDoesNotExistError"):
        assert classify(Wrapped(driver_error(name)), Rules()) == "database"
    assert classify(driver_error("DataError"), Rules()) == "transient"
    assert classify(driver_error("InterfaceError", module="printers"), Rules()) == "transient"


def test_a_connection_that_sqlalchemy_gave_up_is_lost() -> None:
    assert classify(Wrapped(ValueError(), connection_invalidated=True), Rules()) == "database"
    assert classify(Wrapped(ValueError(), connection_invalidated=False), Rules()) == "transient"


def test_a_code_is_found_behind_the_error_it_was_raised_from() -> None:
    with pytest.raises(RuntimeError) as raised:
        try:
            raise WithState("40P01")
        except WithState as inner:
            raise RuntimeError("in the handler's own words") from inner
    assert classify(raised.value, Rules()) == "contended"


def test_an_error_that_merely_followed_another_is_not_taken_for_it() -> None:
    with pytest.raises(KeyError) as raised:
        try:
            raise WithState("40P01")
        except WithState:
            raise KeyError("something else went wrong then")  # noqa: B904 - this is what is tested
    assert classify(raised.value, Rules()) == "transient"


def test_what_the_handler_says_outweighs_the_code_behind_it() -> None:
    error = Permanent("no such article")
    error.__cause__ = WithState("40P01")
    assert classify(error, Rules()) == "permanent"


def test_the_consumers_rules_outweigh_ours() -> None:
    assert classify(InvalidEvent(), Rules(transient=(InvalidEvent,))) == "transient"
    assert classify(WithState("08006"), Rules(permanent=(WithState,))) == "permanent"


def test_of_several_rules_the_closest_relative_decides() -> None:
    rules = Rules(permanent=(OSError,), dependencies=(ConnectionError,), transient=(ConnectionResetError,))
    assert classify(FileNotFoundError(), rules) == "permanent"
    assert classify(BrokenPipeError(), rules) == "dependency"
    assert classify(ConnectionResetError(), rules) == "transient"
    assert rules.of(ValueError()) is None


def test_errors_that_are_each_others_cause_come_to_an_end() -> None:
    one, other = ValueError("one"), ValueError("other")
    one.__cause__, other.__cause__ = other, one
    assert list(causes(one)) == [one, other]


def test_what_was_wrapped_comes_before_what_lies_deeper() -> None:
    deep, driver = ValueError("deep"), WithState("23505")
    driver.__cause__ = deep
    wrapper = Wrapped(driver)
    assert list(causes(wrapper)) == [wrapper, driver, deep]


def test_each_error_has_a_sentence_even_without_one() -> None:
    assert str(Transient()) == "The event could not be processed now: it is parked and tried again."
    assert str(Permanent("no such article")) == "no such article"
