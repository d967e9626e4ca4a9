"""A wish to give goods back: what of the order can still come back, and what that is worth. Pure."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from schemas.parts import Line, StockLine
from surefoot.events import Money


class Pieces(NamedTuple):
    """So many of an article that have cost the same."""

    sku: str
    price: int
    """Of one, in the currency's smallest unit."""
    quantity: int


@dataclass(frozen=True, slots=True)
class Granted:
    lines: tuple[StockLine, ...]
    amount: Money
    pieces: tuple[Pieces, ...]
    """Which of what was bought: kept with the return, so that none is paid for twice, and all are free if it aborts."""


@dataclass(frozen=True, slots=True)
class NotGranted:
    reason: Literal["unknown_order", "not_confirmed", "too_many", "already_requested", "request_reused"]
    sentence: str


def judged(
    bought: Sequence[Line], in_use: Mapping[tuple[str, int], int], wish: Sequence[StockLine]
) -> Granted | NotGranted:
    """`in_use` counts, by article and price, the pieces that other returns of the order have: nothing comes back twice.

    Of an article that was bought at two prices, the dearest pieces that are left come back first."""
    wanted = added_up(wish)
    given: list[Pieces] = []
    for sku, quantity in wanted.items():
        of_it = _by_price(bought, sku)
        left = {price: count - in_use.get((sku, price), 0) for price, count in of_it.items()}
        if quantity > sum(left.values()):
            total = of_it.total()
            return NotGranted(
                "too_many",
                f"{quantity} of {sku} cannot be given back: {total} were bought, and {total - sum(left.values())} of "
                "them are part of another return.",
            )
        given += _dearest(sku, left, quantity)
    amount = Money.minor(sum(pieces.price * pieces.quantity for pieces in given), bought[0].unit_price.currency)
    lines = tuple(StockLine(sku=sku, quantity=quantity) for sku, quantity in wanted.items())
    return Granted(lines, amount, tuple(given))


def added_up(wish: Sequence[StockLine]) -> dict[str, int]:
    """How many of each article, sorted: two wishes for the same goods look the same."""
    wanted: Counter[str] = Counter()
    for line in wish:
        wanted[line.sku] += line.quantity
    return dict(sorted(wanted.items()))


def _by_price(bought: Sequence[Line], sku: str) -> Counter[int]:
    """How many pieces of the article were bought at each price."""
    pieces: Counter[int] = Counter()
    for line in bought:
        if line.sku == sku:
            pieces[line.unit_price.minor_units] += line.quantity
    return pieces


def _dearest(sku: str, left: Mapping[int, int], quantity: int) -> Iterator[Pieces]:
    for price in sorted(left, reverse=True):
        taken = min(quantity, left[price])
        if taken > 0:
            yield Pieces(sku, price, taken)
            quantity -= taken
