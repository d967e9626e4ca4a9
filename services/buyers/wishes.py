"""What buyers want: so many orders of so many articles, always the same for the same seed. Pure."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from schemas.order import Mode
from schemas.parts import Address, Line
from surefoot.events import Money

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
