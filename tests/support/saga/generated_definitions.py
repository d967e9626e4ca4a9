"""Definitions made by chance: steps with and without undo, the pivot anywhere, waits, nested branches, few attempts."""

from datetime import timedelta
from functools import cache
from random import Random

from pydantic import create_model

from surefoot.events import EventData
from surefoot.saga import Definition, Retry, Saga
from surefoot.saga.saga import Path
from tests.support.saga.order_sagas import release, send
from tests.support.shop_types import OrderWanted, ParcelSent, PaymentDeclined, StockReleased, parcels, shop

LABELS = ("left", "middle", "right")


@cache
def arrival(number: int) -> type[EventData]:
    """A type of event for each wait: an event is for one wait."""
    made = create_model(f"Arrival{number}", __base__=EventData, order_id=(str, ...))
    return shop.event(f"carrier.arrived_{number}", topic=parcels, key="order_id")(made)


def which(order: OrderWanted) -> str:
    return order.order_id


def undo(order: OrderWanted) -> object:
    return release(order, None)


class Writer:
    """Writes one saga; names count up, so that none is used twice."""

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.saga = Saga("made", version=1, starts_on=OrderWanted)
        self._count = 0

    def write(self) -> Definition:
        self._step(self.saga)
        self._fill(self.saga, depth=0, passed=False)
        if self.chance.random() < 0.5:
            self.saga.tell("STUCK", send)
        return self.saga.definition

    def _fill(self, path: Path, depth: int, passed: bool) -> None:
        for _ in range(self.chance.randint(0, 3)):
            kind = self.chance.choice(["step", "step", "wait", "branch", "pivot"])
            if kind == "branch" and depth < 2:
                # Only behind the pivot do all paths agree for sure about what may follow.
                self._branch(path, depth + 1, passed)
                if not passed:
                    return
            elif kind == "wait":
                self._wait(path, passed)
            elif kind == "pivot" and not passed:
                self._pivot(path)
                passed = True
            elif passed:
                path.step(self._name("late"), do=send, done_on=ParcelSent, retry=self._retry())
            else:
                self._step(path)

    def _step(self, path: Path) -> None:
        refusable = (PaymentDeclined,) if self.chance.random() < 0.7 else ()
        when_dead = "wait" if self.chance.random() < 0.2 else "undo"
        if self.chance.random() < 0.7:
            path.step(
                self._name("step"),
                do=send,
                done_on=ParcelSent,
                refused_on=refusable,
                undo=undo,  # type: ignore[arg-type]
                undone_on=StockReleased,
                retry=self._retry(),
                undo_retry=self._retry(),
                when_dead=when_dead,  # type: ignore[arg-type]
            )
        else:
            name = self._name("look")
            path.step(
                name, do=send, done_on=ParcelSent, refused_on=refusable, nothing_to_undo=True, retry=self._retry()
            )

    def _pivot(self, path: Path) -> None:
        refusable = (PaymentDeclined,) if self.chance.random() < 0.5 else ()
        path.pivot(self._name("pivot"), do=send, done_on=ParcelSent, refused_on=refusable, retry=self._retry())

    def _wait(self, path: Path, passed: bool) -> None:
        name, late = self._name("wait"), self.chance.choice(["undo", "escalate"])
        until = arrival(self._count)
        if passed or late == "escalate":
            path.wait(name, until=until, deadline=timedelta(days=1), tell=send)
        else:
            path.wait(name, until=until, deadline=timedelta(days=1), when_late="undo")

    def _branch(self, path: Path, depth: int, passed: bool) -> None:
        branch = path.branch(self._name("branch"), by=which)
        for label in LABELS[: self.chance.randint(1, 3)]:
            self._fill(branch.path(label), depth, passed)

    def _name(self, kind: str) -> str:
        self._count += 1
        return f"{kind}_{self._count}"

    def _retry(self) -> Retry:
        return Retry(attempts=self.chance.randint(1, 3))
