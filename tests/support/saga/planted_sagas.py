"""Sagas for the tests of the verifier. Data do not matter to it, so all steps share their events."""

from datetime import timedelta

from surefoot.saga import Definition, Saga
from surefoot.saga.definition import WhenDead
from surefoot.saga.saga import Path
from tests.support.saga.order_sagas import send
from tests.support.shop_types import Collected, OrderWanted, ParcelSent, PaymentDeclined, StockReleased


def either(order: OrderWanted) -> str:
    return "left"


DAY = timedelta(days=1)


def sure(path: Path, name: str) -> None:
    """It has no undo, and is never refused."""
    path.step(name, do=send, done_on=ParcelSent)


def compensable(path: Path, name: str, when_dead: WhenDead = "undo") -> None:
    path.step(
        name,
        do=send,
        done_on=ParcelSent,
        refused_on=PaymentDeclined,
        undo=send,
        undone_on=StockReleased,
        when_dead=when_dead,
    )


def look(path: Path, name: str) -> None:
    path.step(name, do=send, done_on=ParcelSent, refused_on=PaymentDeclined, nothing_to_undo=True)


def pivot(path: Path, name: str) -> None:
    path.pivot(name, do=send, done_on=ParcelSent, refused_on=PaymentDeclined)


def order() -> Definition:
    saga = Saga("order", version=1, starts_on=OrderWanted)
    compensable(saga, "reserve")
    compensable(saga, "capture")
    pivot(saga, "confirm")
    sure(saga, "ship")
    return saga.definition


def returned() -> Definition:
    """A wait, then a branch behind which there is no way back."""
    saga = Saga("returned", version=1, starts_on=OrderWanted)
    compensable(saga, "label")
    saga.wait("parcel", until=Collected, deadline=DAY)
    pivot(saga, "inspect")
    verdict = saga.branch("verdict", by=either)
    sure(verdict.path("left"), "refund")
    sure(verdict.path("right"), "ship_back")
    verdict.path("nothing")
    sure(saga, "notify")
    return saga.definition


def without_pivot() -> Definition:
    saga = Saga("without_pivot", version=1, starts_on=OrderWanted)
    look(saga, "look")
    compensable(saga, "reserve")
    saga.wait("approval", until=Collected, deadline=DAY, when_late="undo")
    compensable(saga, "capture", when_dead="wait")
    return saga.definition


def one_step() -> Definition:
    saga = Saga("one_step", version=1, starts_on=OrderWanted)
    compensable(saga, "reserve")
    return saga.definition


def nested_branches() -> Definition:
    saga = Saga("nested_branches", version=1, starts_on=OrderWanted)
    outer = saga.branch("outer", by=either)
    inner = outer.path("left").branch("inner", by=either)
    compensable(inner.path("up"), "climb")
    inner.path("down").wait("lift", until=Collected, deadline=DAY, when_late="undo")
    outer.path("right")
    last = saga.branch("last", by=either)
    compensable(last.path("left"), "reserve")
    pivot(last.path("right"), "confirm")
    return saga.definition


def two_steps() -> Definition:
    """The smallest one in which order matters."""
    saga = Saga("two_steps", version=1, starts_on=OrderWanted)
    compensable(saga, "reserve")
    compensable(saga, "capture")
    return saga.definition


def undo_missing() -> Definition:
    saga = Saga("undo_missing", version=1, starts_on=OrderWanted)
    sure(saga, "reserve")
    compensable(saga, "capture")
    return saga.definition


def undo_missing_at_the_end() -> Definition:
    """Nothing comes after it that could be refused; and yet its own outcome may stay unknown."""
    saga = Saga("undo_missing_at_the_end", version=1, starts_on=OrderWanted)
    compensable(saga, "reserve")
    saga.step("capture", do=send, done_on=ParcelSent, refused_on=PaymentDeclined)
    return saga.definition
