"""Simulated buyers and carriers: they open sessions, place orders (some click twice), give goods back, fetch parcels.

What they want is always the same for the same seed. They go through the services' own doors, and what they find away
they try again, as people do.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TypeVar

from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession
from uuid_utils import uuid7

from consumers.shipping import NoParcel, confirm_pickup
from schemas.order import Mode, PlacementRequested
from schemas.parts import Address, Line, StockLine
from services.checkout.sessions import NotPlaced, Placed, open_session, place, total_of
from services.returns.requests import Return, request_return
from services.settings import Service, ServiceSettings
from services.warehouse.stock import receive
from surefoot import outbox
from surefoot.database.engine import create_engine
from surefoot.events import Money

T = TypeVar("T")
LOOK_S = 0.05
AGAIN_S = 0.3
HOLD = timedelta(minutes=10)
ARTICLES = tuple(f"article-{n:02}" for n in range(20))
SCARCE = ("last-pieces-1", "last-pieces-2")
PIECES, SCARCE_PIECES = 100_000, 4
HOME = Address(name="A. Buyer", street="1 High Street", postal_code="10115", city="Berlin", country="DE")
FAR_AWAY = Address(name="F. Buyer", street="1 Ice Road", postal_code="1", city="McMurdo", country="AQ")


@dataclass(frozen=True, slots=True)
class Wish:
    number: int
    mode: Mode
    lines: tuple[Line, ...]
    clicks_twice: bool
    gives_back: bool
    """Wants to return it, once it is confirmed."""
    ship_from: Address
    """Where a return would be fetched; from some places nobody fetches any."""
    skips_checkout: bool
    """Asks for the placement without a hold, so that the shelf may be empty when its saga gets there."""

    @property
    def customer_id(self) -> str:
        return f"customer-{self.number:05}"


def wishes(orders: int, *, returns: float = 0.25, choreographed: float = 0.15, seed: int = 7) -> Sequence[Wish]:
    chance = random.Random(seed)
    return [_wish(number, chance, returns, choreographed) for number in range(orders)]


def stock(seed_pieces: int = PIECES) -> dict[str, int]:
    return {**dict.fromkeys(ARTICLES, seed_pieces), **dict.fromkeys(SCARCE, SCARCE_PIECES)}


def _wish(number: int, chance: random.Random, returns: float, choreographed: float) -> Wish:
    is_choreographed = chance.random() < choreographed
    wants_scarce = chance.random() < 0.06
    chosen = [chance.choice(SCARCE)] if wants_scarce else chance.sample(ARTICLES, chance.randint(1, 3))
    price = Money.minor(chance.randint(199, 9_999), "EUR")
    return Wish(
        number=number,
        mode="choreographed" if is_choreographed else "orchestrated",
        lines=tuple(Line(sku=sku, quantity=chance.randint(1, 2), unit_price=price) for sku in sorted(chosen)),
        clicks_twice=chance.random() < 0.1,
        gives_back=not is_choreographed and chance.random() < returns,
        ship_from=FAR_AWAY if chance.random() < 0.1 else HOME,
        skips_checkout=wants_scarce and not is_choreographed and chance.random() < 0.5,
    )


@dataclass
class Seen:
    """What buyers were told."""

    placed: dict[str, Wish] = field(default_factory=dict)
    """By order id."""
    turned_away: int = 0
    """At checkout: sold out."""
    double_clicks: int = 0
    returns: int = 0
    pickups: int = 0


class Buyers:
    def __init__(self, settings: ServiceSettings) -> None:
        self.seen = Seen()
        self._settings = settings
        self._engines: dict[str, AsyncEngine] = {}

    async def fill_shelves(self, pieces: dict[str, int]) -> None:
        async with AsyncSession(self._engine("warehouse")) as session, session.begin():
            await receive(session, "opening", pieces)

    async def buy(self, wish: Wish) -> str | None:
        """The order's id; None if the goods were not to be had."""
        order_id = await (self._again(lambda: self._ask(wish)) if wish.skips_checkout else self._check_out(wish))
        if order_id is not None:
            self.seen.placed[order_id] = wish
        return order_id

    async def give_back(self, stopping: asyncio.Event) -> None:
        """Ask for the return of confirmed orders, as their buyers want it, until told to stop."""
        wanted = {order_id for order_id, wish in self.seen.placed.items() if wish.gives_back}
        asked: set[str] = set()
        while not stopping.is_set():
            wanted |= {order_id for order_id, wish in self.seen.placed.items() if wish.gives_back}
            for order_id in await self._confirmed(wanted - asked):
                if await self._again(lambda order_id=order_id: self._return(order_id)):  # type: ignore[misc]
                    self.seen.returns += 1
                asked.add(order_id)
            await _rest(stopping)

    async def fetch_parcels(self, stopping: asyncio.Event) -> None:
        """The carrier's day, until told to stop."""
        while not stopping.is_set():
            for return_id in await self._again(self._labels):
                with suppress(NoParcel):
                    self.seen.pickups += await self._again(lambda return_id=return_id: self._pick_up(return_id))  # type: ignore[misc]
            await _rest(stopping)

    async def close(self) -> None:
        for engine in self._engines.values():
            await engine.dispose()

    # -- checkout ----------------------------------------------------------------------------------------------------

    async def _check_out(self, wish: Wish) -> str | None:
        session_id = await self._again(lambda: self._open(wish))
        while True:
            answer = await self._again(lambda: self._place(session_id))
            if isinstance(answer, Placed):
                break
            if answer.reason != "not_held_yet":
                self.seen.turned_away += 1
                return None
            await asyncio.sleep(LOOK_S)
        if wish.clicks_twice:
            again = await self._again(lambda: self._place(session_id))
            assert again == answer, "two clicks, two orders"
            self.seen.double_clicks += 1
        return answer.order_id

    async def _open(self, wish: Wish) -> str:
        async with AsyncSession(self._engine("checkout")) as session, session.begin():
            opened = await open_session(
                session,
                customer_id=wish.customer_id,
                lines=wish.lines,
                ship_to=wish.ship_from,
                mode=wish.mode,
                hold=HOLD,
            )
        return opened.session_id

    async def _place(self, session_id: str) -> Placed | NotPlaced:
        async with AsyncSession(self._engine("checkout")) as session, session.begin():
            return await place(session, session_id)

    async def _ask(self, wish: Wish) -> str:
        order_id, session_id = str(uuid7()), str(uuid7())
        asked = PlacementRequested(
            order_id=order_id,
            customer_id=wish.customer_id,
            checkout_session_id=session_id,
            mode=wish.mode,
            lines=wish.lines,
            total=total_of(wish.lines),
            ship_to=wish.ship_from,
        )
        async with AsyncSession(self._engine("checkout")) as session, session.begin():
            outbox.add(session, asked, correlation_id=session_id)
        return order_id

    # -- returns -----------------------------------------------------------------------------------------------------

    async def _confirmed(self, orders: set[str]) -> Sequence[str]:
        if not orders:
            return []
        asked = text("SELECT order_id FROM returns.bought WHERE confirmed AND order_id = ANY (:orders)")

        async def look() -> Sequence[str]:
            async with self._engine("returns").connect() as connection:
                return list((await connection.execute(asked, {"orders": list(orders)})).scalars())

        return await self._again(look)

    async def _return(self, order_id: str) -> bool:
        wish = self.seen.placed[order_id]
        lines = [StockLine(sku=line.sku, quantity=line.quantity) for line in wish.lines]
        number = wish.number
        async with AsyncSession(self._engine("returns")) as session, session.begin():
            answer = await request_return(
                session,
                order_id=order_id,
                lines=lines,
                ship_from=wish.ship_from,
                return_request_id="all of it",
                when_damaged="refund_half" if number % 2 else "no_refund",
                when_rejected="ship_back" if number % 3 else "keep",
            )
        return isinstance(answer, Return)

    async def _labels(self) -> Sequence[str]:
        asked = text("SELECT return_id FROM shipping.labels WHERE state = 'CREATED'")
        async with self._engine("shipping").connect() as connection:
            return list((await connection.execute(asked)).scalars())

    async def _pick_up(self, return_id: str) -> bool:
        async with AsyncSession(self._engine("shipping")) as session, session.begin():
            return await confirm_pickup(session, return_id)

    # -- the way there -----------------------------------------------------------------------------------------------

    def _engine(self, service: Service) -> AsyncEngine:
        url = self._settings.database_of(service)
        if url not in self._engines:
            self._engines[url] = create_engine(url, name="surefoot buyers", pool_size=8)
        return self._engines[url]

    async def _again(self, work: Callable[[], Awaitable[T]]) -> T:
        """Until the database is there. A commit whose answer was lost may have been one: a session or a wish more."""
        while True:
            try:
                return await work()
            except (DBAPIError, OSError):
                await asyncio.sleep(AGAIN_S)


async def _rest(stopping: asyncio.Event) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(stopping.wait(), LOOK_S * 4)
