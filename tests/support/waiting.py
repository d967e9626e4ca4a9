"""Waiting for something that will happen, with a deadline. Tests never sleep for luck."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")
LONG_ENOUGH_S = 150.0
"""On a machine that is ten times slower than usual; a test that passes never waits for it."""


async def eventually(check: Callable[[], Awaitable[T]], *, what: str, within_s: float = LONG_ENOUGH_S) -> T:
    """Call `check` until it returns something true, and return that; fail with `what` after the deadline."""
    deadline = time.monotonic() + within_s
    while True:
        found = await check()
        if found:
            return found
        assert time.monotonic() < deadline, f"Not within {within_s:g} s: {what}. Last seen: {found!r}"
        await asyncio.sleep(0.01)


def wait_until(check: Callable[[], bool], *, what: str, within_s: float = LONG_ENOUGH_S) -> None:
    """The same without an event loop."""
    deadline = time.monotonic() + within_s
    while not check():
        assert time.monotonic() < deadline, f"Not within {within_s:g} s: {what}"
        time.sleep(0.01)
