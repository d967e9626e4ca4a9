"""The warehouse's books, read in one snapshot, as plain values for the checkers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import orjson

from services.checks.reading import read

KEPT_IN = ("on_hand", "held", "reserved", "quarantined")
RESERVATIONS = "SELECT order_id, state, lines FROM warehouse.reservations"
RETURNED = "SELECT return_id, place, lines FROM warehouse.returned"
Lines = tuple[tuple[str, int], ...]


class Move(NamedTuple):
    move_id: int
    sku: str
    cause: str
    reference: str
    changes: tuple[int, ...]
    """By how much each of `KEPT_IN` changed."""

    @property
    def pieces(self) -> int:
        """How many pieces it was about."""
        on_hand, held, reserved, quarantined = (abs(change) for change in self.changes)
        return reserved if self.cause == "reserved" else max(on_hand, held, reserved, quarantined)


class Hold(NamedTuple):
    session_id: str
    state: str
    lines: Lines


class Reservation(NamedTuple):
    order_id: str
    state: str
    lines: Lines


class Returned(NamedTuple):
    return_id: str
    place: str
    lines: Lines


@dataclass(frozen=True, slots=True)
class Books:
    stock: Mapping[str, tuple[int, ...]]
    moves: Sequence[Move] = ()
    """By move_id, which for one article is the order in which they happened."""
    holds: Sequence[Hold] = ()
    reservations: Sequence[Reservation] = ()
    returned: Sequence[Returned] = ()


async def read_books(url: str) -> Books:
    columns = ", ".join(KEPT_IN)
    stock, moves, holds, reservations, returned = await read(
        url,
        f"SELECT sku, {columns} FROM warehouse.stock",
        f"SELECT move_id, sku, cause, reference, {columns} FROM warehouse.moves ORDER BY move_id",
        "SELECT checkout_session_id, state, lines FROM warehouse.holds",
        RESERVATIONS,
        RETURNED,
    )
    return Books(
        {row[0]: (row[1], row[2], row[3], row[4]) for row in stock},
        [Move(row[0], row[1], row[2], row[3], (row[4], row[5], row[6], row[7])) for row in moves],
        [Hold(row[0], row[1], lines_of(row[2])) for row in holds],
        [Reservation(row[0], row[1], lines_of(row[2])) for row in reservations],
        [Returned(row[0], row[1], lines_of(row[2])) for row in returned],
    )


def lines_of(kept: Any) -> Lines:
    return tuple((line["sku"], line["quantity"]) for line in orjson.loads(kept))
