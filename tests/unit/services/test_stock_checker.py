"""The checker of stock finds what is planted, and nothing in books that are right."""

from dataclasses import replace

from services.checks.stock import Books, Hold, Move, Reservation, Returned, Violation, findings
from tests.support.corpus import each_of

# 10 received; s-1 holds 2, which o-1 takes and gets shipped; o-2 reserves 3 and gives them back; s-2's hold of 1
# expires, s-3's of 1 is released; o-3 has 1 reserved, s-4 holds 1; r-1 comes back to the shelf, r-2 is put apart.
MOVES = [
    Move(1, "table", "received", "delivery", (10, 0, 0, 0)),
    Move(2, "table", "held", "s-1", (0, 2, 0, 0)),
    Move(3, "table", "reserved", "o-1", (0, -2, 2, 0)),
    Move(4, "table", "shipped", "o-1", (-2, 0, -2, 0)),
    Move(5, "table", "reserved", "o-2", (0, 0, 3, 0)),
    Move(6, "table", "released", "o-2", (0, 0, -3, 0)),
    Move(7, "table", "held", "s-2", (0, 1, 0, 0)),
    Move(8, "table", "hold_expired", "s-2", (0, -1, 0, 0)),
    Move(9, "table", "held", "s-3", (0, 1, 0, 0)),
    Move(10, "table", "hold_released", "s-3", (0, -1, 0, 0)),
    Move(11, "table", "reserved", "o-3", (0, 0, 1, 0)),
    Move(12, "table", "held", "s-4", (0, 1, 0, 0)),
    Move(13, "table", "restocked", "r-1", (1, 0, 0, 0)),
    Move(14, "table", "quarantined", "r-2", (0, 0, 0, 1)),
]
ONE, TWO, THREE = (("table", 1),), (("table", 2),), (("table", 3),)
RIGHT = Books(
    {"table": (9, 1, 1, 1)},
    MOVES,
    [
        Hold("s-1", "TAKEN", TWO),
        Hold("s-2", "EXPIRED", ONE),
        Hold("s-3", "RELEASED", ONE),
        Hold("s-4", "HELD", ONE),
    ],
    [Reservation("o-1", "SHIPPED", TWO), Reservation("o-2", "RELEASED", THREE), Reservation("o-3", "RESERVED", ONE)],
    [Returned("r-1", "SHELF", ONE), Returned("r-2", "QUARANTINE", ONE)],
)


def without(*numbers: int) -> list[Move]:
    return [move for move in MOVES if move.move_id not in numbers]


def with_move(cause: str, reference: str, *changes: int) -> list[Move]:
    return [*MOVES, Move(99, "table", cause, reference, changes)]


def test_right_books_have_no_findings() -> None:
    assert findings(RIGHT) == []


@each_of(
    ("books", "violation", "words"),
    [
        (replace(RIGHT, stock={"table": (-1, 1, 1, 1)}), "negative", "table stands at"),
        (replace(RIGHT, stock={"table": (9, 5, 5, 1)}), "negative", "table stands at"),
        (replace(RIGHT, moves=[*MOVES[1:], MOVES[0]]), "negative", "stood at"),
        (replace(RIGHT, stock={"table": (8, 1, 1, 1)}), "unbalanced", "8 on_hand, and its moves add up to 9"),
        (replace(RIGHT, stock={}), "unbalanced", "0 on_hand, and its moves add up to 9"),
        (replace(RIGHT, moves=without(4)), "unbalanced", "add up to 11"),
        (replace(RIGHT, holds=RIGHT.holds[:3]), "promise", "1 held, and the holds that stand have 0"),
        (replace(RIGHT, reservations=RIGHT.reservations[:2]), "promise", "1 reserved, and the reservations"),
        (replace(RIGHT, moves=with_move("shipped", "o-1", -2, 0, -2, 0)), "repeated", "shipped 2 times for o-1"),
        (replace(RIGHT, moves=with_move("restocked", "r-1", 1, 0, 0, 0)), "repeated", "restocked 2 times for r-1"),
        (replace(RIGHT, moves=with_move("shipped", "o-9", -1, 0, 0, 0)), "wrong_move", "not what its cause does"),
        (replace(RIGHT, moves=with_move("received", "d-2", -1, 0, 0, 0)), "wrong_move", "not what its cause does"),
        (
            replace(RIGHT, moves=with_move("released", "o-9", 0, 0, -1, 0)),
            "wrong_move",
            "released for o-9, and its row",
        ),
        (replace(RIGHT, moves=without(6)), "wrong_move", "should have been released for o-2"),
        (replace(RIGHT, returned=RIGHT.returned[:1]), "wrong_move", "quarantined for r-2, and its row"),
    ],
)
def test_a_planted_violation_is_found(books: Books, violation: Violation, words: str) -> None:
    found = [finding.sentence for finding in findings(books) if finding.violation == violation]
    assert any(words in sentence for sentence in found), found
