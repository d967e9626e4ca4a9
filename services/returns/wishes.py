"""A wish to give goods back: what of the order can still come back, and what that is worth. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from schemas.parts import Line, StockLine
from surefoot.events import Money


@dataclass(frozen=True, slots=True)
class Granted:
    lines: tuple[StockLine, ...]
    amount: Money


@dataclass(frozen=True, slots=True)
class NotGranted:
    reason: Literal["unknown_order", "not_confirmed", "too_many"]
    sentence: str


def judged(bought: Sequence[Line], coming_back: Mapping[str, int], wish: Sequence[StockLine]) -> Granted | NotGranted:
    """`coming_back` counts what earlier returns of the order have asked for: nothing comes back twice.

    Of an article that was bought at two prices, the dearer pieces come back first, whichever return they are in."""
    wanted: dict[str, int] = {}
    for line in wish:
        wanted[line.sku] = wanted.get(line.sku, 0) + line.quantity
    amount = Money.minor(0, bought[0].unit_price.currency)
    for sku, quantity in sorted(wanted.items()):
        prices = _prices(bought, sku)
        before = coming_back.get(sku, 0)
        if before + quantity > len(prices):
            return NotGranted(
                "too_many",
                f"{quantity} of {sku} cannot be given back: {len(prices)} were bought, and {before} of them are "
                "part of another return.",
            )
        amount += Money.minor(sum(prices[before : before + quantity]), amount.currency)
    return Granted(tuple(StockLine(sku=sku, quantity=quantity) for sku, quantity in sorted(wanted.items())), amount)


def _prices(bought: Sequence[Line], sku: str) -> list[int]:
    """What each piece of the article has cost, dearest first."""
    pieces = (([line.unit_price.minor_units] * line.quantity) for line in bought if line.sku == sku)
    return sorted((price for pile in pieces for price in pile), reverse=True)
