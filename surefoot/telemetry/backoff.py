"""Waiting longer each time. Pure."""

from datetime import timedelta


def backoff(failures_before: int, *, shortest: timedelta, longest: timedelta) -> timedelta:
    """Doubles each time, up to the longest. (2 ** 30 half-seconds is long enough; more would overflow.)"""
    doubled: timedelta = shortest * 2 ** min(failures_before, 30)
    return min(longest, doubled)
