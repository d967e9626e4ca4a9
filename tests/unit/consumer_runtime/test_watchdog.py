"""The watchdog of the event loop: notices who blocks it, says so once, and keeps quiet otherwise."""

import asyncio
import re
import threading
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from prometheus_client import REGISTRY
from structlog.testing import capture_logs

from surefoot.consumer_runtime.watchdog import Watchdog, blocker
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow

Lines = list[Any]


@pytest.fixture
def lines() -> Iterator[Lines]:
    with capture_logs() as captured:
        yield captured


@pytest.fixture
def name() -> str:
    return f"watched-{uuid.uuid4().hex[:8]}"


def stalls(name: str) -> float:
    return REGISTRY.get_sample_value("surefoot_consumer_loop_stalls_total", {"consumer": name}) or 0.0


def block(seconds: float) -> None:
    time.sleep(seconds)


async def runs_again(lines: Lines, times: int) -> None:
    async def seen() -> bool:
        return [line["event"] for line in lines].count("the event loop runs again") == times

    await eventually(seen, what="it says that the loop runs again")


async def test_a_loop_that_is_blocked_is_told_of_once_and_by_name(name: str, lines: Lines) -> None:
    watchdog = Watchdog(name, beat_s=0.05, stalled_s=0.2)
    watchdog.start()
    block(1.0)
    await runs_again(lines, 1)
    watchdog.stop()
    told, over = lines
    assert told["log_level"] == "warning"
    assert told["consumer"] == name
    still = re.match(r"the event loop has stood still for (\d\.\d) s in ", told["event"])
    assert still is not None, told
    assert 0.2 <= float(still[1]) < 1.0  # said while it stands still: it might do so for ever
    assert f"{__name__}.test_a_loop_that_is_blocked_is_told_of_once_and_by_name (line " in told["event"]
    assert f"at {__name__}.block (line " in told["event"]
    assert "handlers must not block" in told["event"]
    assert over["stood_still_s"] >= 1.0
    assert stalls(name) == 1


async def test_each_standstill_is_told_of(name: str, lines: Lines) -> None:
    watchdog = Watchdog(name, beat_s=0.05, stalled_s=0.2)
    watchdog.start()
    for times in (1, 2):
        block(0.5)
        await runs_again(lines, times)
    watchdog.stop()
    assert stalls(name) == 2


async def test_a_loop_that_waits_is_not_blocked(name: str, lines: Lines) -> None:
    watchdog = Watchdog(name, beat_s=0.05, stalled_s=1.0)
    watchdog.start()
    await asyncio.sleep(1.5)  # the time in which it would have been told of
    watchdog.stop()
    assert lines == []
    assert stalls(name) == 0


async def test_when_stopped_it_leaves_no_thread_and_says_nothing(name: str, lines: Lines) -> None:
    def threads() -> list[str]:
        return [thread.name for thread in threading.enumerate() if name in thread.name]

    watchdog = Watchdog(name, beat_s=0.05, stalled_s=0.2)
    watchdog.start()
    assert threads() == [f"watchdog of {name}"]
    watchdog.stop()

    async def gone() -> bool:
        return threads() == []

    await eventually(gone, what="its thread ends")
    block(0.4)
    await asyncio.sleep(0)
    assert lines == []


def frames_of(modules: list[str]) -> Any:
    """The innermost frame of a stack of functions, the first called first, in modules of these names."""
    found: list[Any] = []
    call: Any = lambda: found.append(__import__("sys")._getframe(1))  # noqa: E731
    for n, module in reversed(list(enumerate(modules))):
        space = {"__name__": module, "call": call}
        exec(f"def f{n}():\n    call()", space)  # noqa: S102  # a function in a module that is not there
        call = space[f"f{n}"]
    call()
    return found[0]


@pytest.mark.parametrize(
    ("modules", "said"),
    [
        (["asyncio.runners", "surefoot.consumer_runtime.worker", "shop.orders"], "shop.orders.f2 (line 2)"),
        (["surefoot.consumer_runtime.handling", "shop.orders", "surefoot.outbox"], "shop.orders.f1 (line 2)"),
        (["surefoot.consumer_runtime.handling", "shop", "http", "ssl"], "shop.f1 (line 2), at ssl.f3 (line 2)"),
        (["click", "asyncio.events", "shop.task"], "shop.task.f2 (line 2)"),
    ],
    ids=["a handler", "in our own code for a handler", "in a library", "a task that a handler made"],
)
def test_the_handler_is_named_and_where_it_waits(modules: list[str], said: str) -> None:
    assert blocker(frames_of(modules)) == said
