"""Stock is conserved: every piece that was received is on the shelf, shipped, or put away, and none was promised twice.

Pure functions over what lies in the warehouse's tables; `check(url)` reads them and runs all. They know nothing of how
the warehouse works, only what its moves must add up to. One snapshot is read, so it may be run at any time.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import orjson

from services.checks.checker import Finding, read

Violation = Literal["negative", "unbalanced", "promise", "repeated", "wrong_move"]
"""negative: below zero, or more promised than there was, now or at some time. unbalanced: the moves do not add up to
the stock. promise: what is held or reserved is not what holds and reservations say. repeated: something was moved
twice. wrong_move: a move that its cause does not explain."""
Found = Finding[Violation]

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


class Shape(NamedTuple):
    """Which columns a cause changes, and which way."""

    on_hand: int = 0
    held: int = 0
    reserved: int = 0
    quarantined: int = 0


SHAPES = {
    "received": Shape(on_hand=1),
    "held": Shape(held=1),
    "hold_expired": Shape(held=-1),
    "hold_released": Shape(held=-1),
    "reserved": Shape(held=-1, reserved=1),
    "released": Shape(reserved=-1),
    "shipped": Shape(on_hand=-1, reserved=-1),
    "restocked": Shape(on_hand=1),
    "quarantined": Shape(quarantined=1),
}
OPTIONAL = {("reserved", "held"), ("reserved", "reserved")}
"""An order whose session holds nothing takes what is free; what a session holds and its order does not want is free."""


async def check(url: str) -> list[Found]:
    return findings(await read_books(url))


def findings(books: Books) -> list[Found]:
    return [
        *negative(books),
        *unbalanced(books),
        *unkept_promises(books),
        *repeated(books.moves),
        *wrong_moves(books.moves),
        *unexplained(books),
    ]


def negative(books: Books) -> list[Found]:
    """Neither now nor at any time: the moves are replayed in their order."""
    found: list[Found] = [
        Finding("negative", f"{sku} stands at {dict(zip(KEPT_IN, counts, strict=True))}")
        for sku, counts in sorted(books.stock.items())
        if _is_negative(counts)
    ]
    running: dict[str, tuple[int, ...]] = defaultdict(lambda: (0, 0, 0, 0))
    for move in books.moves:
        running[move.sku] = tuple(a + b for a, b in zip(running[move.sku], move.changes, strict=True))
        if _is_negative(running[move.sku]):
            shown = dict(zip(KEPT_IN, running[move.sku], strict=True))
            found.append(Finding("negative", f"{sku_at(move)} stood at {shown} after it"))
    return found


def unbalanced(books: Books) -> list[Found]:
    sums: dict[str, tuple[int, ...]] = dict.fromkeys(books.stock, (0, 0, 0, 0))
    for move in books.moves:
        sums[move.sku] = tuple(a + b for a, b in zip(sums.get(move.sku, (0, 0, 0, 0)), move.changes, strict=True))
    return [
        Finding("unbalanced", f"{sku} has {there} {column}, and its moves add up to {moved}")
        for sku, moves in sorted(sums.items())
        for column, there, moved in zip(KEPT_IN, books.stock.get(sku, (0, 0, 0, 0)), moves, strict=True)
        if there != moved
    ]


def unkept_promises(books: Books) -> list[Found]:
    """What stock says is held and reserved is what standing holds and reservations say."""
    held = _total(hold.lines for hold in books.holds if hold.state == "HELD")
    reserved = _total(one.lines for one in books.reservations if one.state == "RESERVED")
    return [
        Finding("promise", f"{sku} has {counts[column]} {KEPT_IN[column]}, and the {rows} that stand have {promised}")
        for sku, counts in sorted({**dict.fromkeys([*held, *reserved], (0, 0, 0, 0)), **books.stock}.items())
        for column, promised, rows in ((1, held[sku], "holds"), (2, reserved[sku], "reservations"))
        if counts[column] != promised
    ]


def repeated(moves: Iterable[Move]) -> list[Found]:
    """An order's goods are reserved, released and shipped once, a session's held once, a return put away once."""
    counts = Counter((move.cause, move.reference, move.sku) for move in moves if move.cause != "received")
    return [
        Finding("repeated", f"{sku} was {cause} {count} times for {reference}")
        for (cause, reference, sku), count in sorted(counts.items())
        if count > 1
    ]


def wrong_moves(moves: Iterable[Move]) -> list[Found]:
    """Each cause changes its own columns, all by the same number of pieces, in its own direction."""
    found: list[Found] = []
    for move in moves:
        shape = SHAPES[move.cause]
        signs = tuple((change > 0) - (change < 0) for change in move.changes)
        fits = all(
            sign == wanted or (sign == 0 and (move.cause, column) in OPTIONAL)
            for column, sign, wanted in zip(KEPT_IN, signs, shape, strict=True)
        )
        sizes = {
            abs(change)
            for column, change in zip(KEPT_IN, move.changes, strict=True)
            if change and (move.cause, column) not in OPTIONAL
        }
        if not fits or len(sizes) > 1 or not any(move.changes):
            shown = dict(zip(KEPT_IN, move.changes, strict=True))
            found.append(Finding("wrong_move", f"{sku_at(move)} changed {shown}, which is not what its cause does"))
    return found


def unexplained(books: Books) -> list[Found]:
    """Every hold, reservation and return has the moves of its state, and no move is without one of them."""
    expected: Counter[tuple[str, str, str, int]] = Counter()
    for hold in books.holds:
        expected.update(_moves_of_hold(hold))
    for reservation in books.reservations:
        expected.update(_moves_of_reservation(reservation))
    for return_id, place, lines in books.returned:
        cause = "restocked" if place == "SHELF" else "quarantined"
        expected.update((cause, return_id, sku, quantity) for sku, quantity in lines)
    actual = Counter(
        (move.cause, move.reference, move.sku, move.pieces)
        for move in books.moves
        if move.cause != "received" and move.pieces
    )
    missing: list[Found] = [
        Finding("wrong_move", f"{quantity} of {sku} should have been {cause} for {reference}, and no move says so")
        for cause, reference, sku, quantity in sorted((expected - actual).elements())
    ]
    unasked: list[Found] = [
        Finding("wrong_move", f"{quantity} of {sku} were {cause} for {reference}, and its row does not say why")
        for cause, reference, sku, quantity in sorted((actual - expected).elements())
    ]
    return missing + unasked


def sku_at(move: Move) -> str:
    return f"{move.sku} (move {move.move_id}, {move.cause} for {move.reference})"


def _moves_of_hold(hold: Hold) -> list[tuple[str, str, str, int]]:
    causes = {"HELD": ["held"], "TAKEN": ["held"], "EXPIRED": ["held", "hold_expired"]}
    wanted = causes.get(hold.state, ["held", "hold_released"])
    return [(cause, hold.session_id, sku, quantity) for cause in wanted for sku, quantity in hold.lines]


def _moves_of_reservation(reservation: Reservation) -> list[tuple[str, str, str, int]]:
    causes = {"RESERVED": ["reserved"], "RELEASED": ["reserved", "released"]}
    wanted = causes.get(reservation.state, ["reserved", "shipped"])
    return [(cause, reservation.order_id, sku, quantity) for cause in wanted for sku, quantity in reservation.lines]


def _is_negative(counts: Sequence[int]) -> bool:
    on_hand, held, reserved, _ = counts
    return min(counts) < 0 or held + reserved > on_hand


def _total(lines: Iterable[Sequence[tuple[str, int]]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for some in lines:
        for sku, quantity in some:
            total[sku] += quantity
    return total
