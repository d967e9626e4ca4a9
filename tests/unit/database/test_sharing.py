"""Shares are fair, and a change of members moves no more than it must."""

from hypothesis import given
from hypothesis import strategies as st

from surefoot.database.leases import to_acquire, to_release


def test_one_member_takes_everything() -> None:
    assert to_acquire(held=0, units=8, members=1) == 8


def test_a_second_member_is_left_half() -> None:
    assert to_release(frozenset(range(8)), units=8, members=2) == {4, 5, 6, 7}
    assert to_acquire(held=0, units=8, members=2) == 4


def test_a_share_that_does_not_divide_is_rounded_up() -> None:
    assert to_acquire(held=2, units=8, members=3) == 1
    assert to_release(frozenset({0, 3, 5}), units=8, members=3) == frozenset()


def test_more_members_than_units_leave_some_without() -> None:
    assert to_release(frozenset({1}), units=2, members=5) == frozenset()
    assert to_acquire(held=0, units=2, members=5) == 1


@given(units=st.integers(1, 64), members=st.integers(1, 20))
def test_members_that_only_follow_their_own_share_end_up_owning_everything(units: int, members: int) -> None:
    held: list[set[int]] = [set(range(units))] + [set() for _ in range(members - 1)]
    free: set[int] = set()
    for _ in range(2):
        for mine in held:
            surplus = to_release(frozenset(mine), units=units, members=members)
            mine -= surplus
            free |= surplus
            for _ in range(min(len(free), to_acquire(held=len(mine), units=units, members=members))):
                mine.add(free.pop())
    assert not free
    assert sorted(unit for mine in held for unit in mine) == list(range(units))
