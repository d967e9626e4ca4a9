"""A step, a wait or a branch that cannot be right is refused, with a sentence that says what is wrong."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from surefoot.errors import UndeclaredEvent
from surefoot.events import EventData
from surefoot.saga import DefinitionError, Saga
from tests.support.saga.order_sagas import order_saga, release, reserve, send
from tests.support.saga.refused_definitions import at_once, new, ok, refused
from tests.support.shop_types import (
    Collected,
    OrderConfirmed,
    OrderRefused,
    OrderWanted,
    ParcelSent,
    StockReleased,
    StockReserved,
)


class Undeclared(EventData):
    order_id: str


def after_pivot(**said: Any) -> Callable[[Saga], None]:
    def write(saga: Saga) -> None:
        saga.pivot("confirm", do=send, done_on=OrderConfirmed)
        saga.step("ship", do=send, done_on=ParcelSent, **said)

    return write


def by(order: OrderWanted) -> str:
    return "left"


def test_a_right_definition_is_taken() -> None:
    assert [step.name for step in order_saga().definition.steps] == ["reserve", "pay", "confirm", "ship"]


def test_an_undo_behind_the_pivot() -> None:
    at_once(
        "order: ship has an undo and is behind the pivot, where nothing is undone any more.",
        after_pivot(undo=release, undone_on=StockReleased),
    )


def test_a_refusal_behind_the_pivot() -> None:
    at_once(
        "order: ship can be refused and is behind the pivot, where nothing is undone any more: it has no way to end.",
        after_pivot(refused_on=OrderRefused),
    )


def test_a_wait_behind_the_pivot_that_would_undo() -> None:
    def write(saga: Saga) -> None:
        saga.pivot("confirm", do=send, done_on=OrderConfirmed)
        saga.wait("collected", until=Collected, deadline=timedelta(days=1), when_late="undo")

    at_once("order: collected is behind the pivot, so nothing can be undone when it is late: escalate.", write)


def test_a_second_pivot() -> None:
    def write(saga: Saga) -> None:
        saga.pivot("confirm", do=send, done_on=OrderConfirmed)
        saga.pivot("again", do=send, done_on=OrderConfirmed)

    at_once("order: again is a second pivot; a way through a saga has one.", write)


def test_what_follows_a_branch_whose_paths_all_pass_a_pivot_is_behind_it() -> None:
    def write(saga: Saga) -> None:
        way = saga.branch("way", by=by)
        way.path("left").pivot("confirm_left", do=send, done_on=OrderConfirmed)
        way.path("right").pivot("confirm_right", do=send, done_on=OrderConfirmed)
        ok(saga)

    at_once("order: reserve has an undo and is behind the pivot, where nothing is undone any more.", write)


def test_paths_that_do_not_agree_about_the_pivot() -> None:
    def write(saga: Saga) -> None:
        way = saga.branch("way", by=by)
        way.path("left").pivot("confirm", do=send, done_on=OrderConfirmed)
        way.path("right")
        ok(saga)

    at_once(
        "order: some paths of the branch way pass a pivot and others do not, so nobody can say whether what follows "
        "the branch may still be undone. Put the rest into the paths.",
        write,
    )


def test_paths_may_disagree_about_the_pivot_if_nothing_follows() -> None:
    saga = new()
    way = saga.branch("way", by=by)
    way.path("left").pivot("confirm", do=send, done_on=OrderConfirmed)
    ok(way.path("right"))  # type: ignore[arg-type]
    assert saga.definition.step("reserve").after_pivot is False


def test_a_path_that_grows_after_its_branch_was_left() -> None:
    def write(saga: Saga) -> None:
        left = saga.branch("way", by=by).path("left")
        ok(saga)
        left.pivot("confirm", do=send, done_on=OrderConfirmed)

    at_once(
        "order: confirm is added to a path whose branch is followed by reserve already: write the paths of a branch "
        "before what follows it.",
        write,
    )


def test_a_path_that_is_opened_after_its_branch_was_left() -> None:
    def write(saga: Saga) -> None:
        way = saga.branch("way", by=by)
        way.path("left")
        ok(saga)
        way.path("right")

    at_once(
        "order: the path 'right' is added to the branch way, which is followed by reserve already: write the paths of "
        "a branch before what follows it.",
        write,
    )


def test_a_step_that_no_event_ends() -> None:
    at_once(
        "order: ship says by no event that it is done, so it has no way to end.",
        lambda saga: saga.step("ship", do=send, done_on=()),
    )


def test_a_step_without_a_timeout() -> None:
    at_once(
        "order: ship has no timeout above zero, so it has no way to end.",
        lambda saga: saga.step("ship", do=send, done_on=ParcelSent, timeout=timedelta(0)),
    )


def test_a_wait_without_a_deadline() -> None:
    at_once(
        "order: collected has no deadline above zero, so it has no way to end.",
        lambda saga: saga.wait("collected", until=Collected, deadline=timedelta(0)),
    )


def test_an_undo_that_no_event_ends() -> None:
    at_once(
        "order: reserve has an undo and no undone_on, so the undo has no way to end.",
        lambda saga: saga.step("reserve", do=reserve, done_on=StockReserved, undo=release),
    )


def test_an_answer_to_an_undo_that_is_not_there() -> None:
    at_once(
        "order: reserve has undone_on without undo.",
        lambda saga: saga.step("reserve", do=reserve, done_on=StockReserved, undone_on=StockReleased),
    )


def test_an_undo_of_nothing() -> None:
    at_once(
        "order: reserve has an undo, and says that there is nothing to undo.",
        lambda saga: saga.step(
            "reserve",
            do=reserve,
            done_on=StockReserved,
            undo=release,
            undone_on=StockReleased,
            nothing_to_undo=True,
        ),
    )


def test_an_event_that_means_done_and_refused() -> None:
    at_once(
        "order: ship is both done and refused on ParcelSent.",
        lambda saga: saga.step("ship", do=send, done_on=ParcelSent, refused_on=ParcelSent),
    )


def test_words_that_are_not_among_those_that_are_understood() -> None:
    at_once(
        "order: ship: when_dead is 'panic'; say undo or wait.",
        lambda saga: saga.step("ship", do=send, done_on=ParcelSent, when_dead="panic"),  # type: ignore[arg-type]
    )
    at_once(
        "order: collected: when_late is 'never'; say undo or escalate.",
        lambda saga: saga.wait("collected", until=Collected, deadline=timedelta(1), when_late="never"),  # type: ignore[arg-type]
    )


@pytest.mark.parametrize("said", [{"done_on": Undeclared}, {"done_on": ParcelSent, "refused_on": Undeclared}])
def test_an_answer_that_was_never_declared(said: Any) -> None:
    with pytest.raises(UndeclaredEvent, match=r"Undeclared was never declared as an event"):
        new().step("ship", do=send, **said)


def test_a_name_that_is_used_twice() -> None:
    def write(saga: Saga) -> None:
        ok(saga)
        way = saga.branch("way", by=by)
        way.path("left").wait("reserve", until=Collected, deadline=timedelta(1))

    at_once("order: the name reserve is used twice; steps are known by their names.", write)


def test_a_path_that_is_named_twice() -> None:
    def write(saga: Saga) -> None:
        way = saga.branch("way", by=by)
        way.path("left")
        way.path("left")

    at_once("order: the branch way has two paths named 'left'.", write)


def test_a_branch_without_paths() -> None:
    def write(saga: Saga) -> None:
        ok(saga)
        saga.branch("way", by=by)

    refused("order: the branch way has no paths, so it leads nowhere.", write)


@pytest.mark.parametrize("name", ["", "Order", "9lives", "a b", "x" * 65])
def test_a_name_that_is_none(name: str) -> None:
    with pytest.raises(DefinitionError, match=r"is no name for a saga"):
        Saga(name, version=1, starts_on=OrderWanted)
    with pytest.raises(DefinitionError, match=r"is no name for a step"):
        new().step(name, do=send, done_on=ParcelSent)


def test_a_version_below_one() -> None:
    with pytest.raises(DefinitionError, match=r"order: version 0 is below 1."):
        Saga("order", version=0, starts_on=OrderWanted)


def test_a_saga_without_steps() -> None:
    refused("order has no steps.", lambda saga: saga.wait("collected", until=Collected, deadline=timedelta(1)))
