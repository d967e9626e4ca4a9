"""How many units a member should own. Pure.

Nobody owns more than its fair share (rounded up), so that a member that joins finds something to take, and nobody
gives up units that no one else would take.
"""


def fair_share(*, units: int, members: int) -> int:
    return -(-units // max(1, members))


def to_acquire(*, held: int, units: int, members: int) -> int:
    """How many more units to take, if there are free ones."""
    return max(0, fair_share(units=units, members=members) - held)


def to_release(held: frozenset[int], *, units: int, members: int) -> frozenset[int]:
    """Which units to let go: the highest-numbered ones above the fair share."""
    share = fair_share(units=units, members=members)
    return frozenset(sorted(held)[share:])
