"""Long-running parts: rounds, rests, outages, and what becomes of the others when one of them ends."""

import asyncio
from collections.abc import Callable
from datetime import timedelta

import pytest

from surefoot.service import NO_REST, LoopService, Outage, Together, rest

LONG = timedelta(hours=1)


class Counter:
    def __init__(self) -> None:
        self.count = 0

    def inc(self) -> None:
        self.count += 1


class Away(Exception):
    """What waiting can mend."""


class Scripted(LoopService):
    """Does in each round what the script says next, and stops itself at its end."""

    def __init__(self, *script: timedelta | Exception) -> None:
        super().__init__("scripted")
        self.outages = Counter()
        self.rounds = 0
        self.is_closed = False
        self._script = list(script)
        shortest = timedelta(milliseconds=1)
        self._outage = Outage("it", self.outages, shortest=shortest, longest=shortest)

    async def round(self) -> timedelta:
        self.rounds += 1
        step = self._script.pop(0)
        if not self._script:
            self.stop()
        if isinstance(step, Exception):
            raise step
        self._outage.over()
        return step

    async def outage_of(self, error: Exception) -> Outage:
        if not isinstance(error, Away):
            raise error
        return self._outage

    async def close(self) -> None:
        self.is_closed = True


class Resting:
    """Runs until it is stopped; what it does then is the test's."""

    def __init__(self, at_the_end: Callable[[], None] = lambda: None) -> None:
        self.stopping = asyncio.Event()
        self.has_ended = False
        self._at_the_end = at_the_end

    def stop(self) -> None:
        self.stopping.set()

    async def run(self) -> None:
        await self.stopping.wait()
        self.has_ended = True
        self._at_the_end()


def failing(error: Exception) -> Callable[[], None]:
    def fail() -> None:
        raise error

    return fail


async def soon(service: LoopService | Together) -> None:
    async with asyncio.timeout(10):
        await service.run()


async def test_it_works_in_rounds_until_it_is_stopped() -> None:
    service = Scripted(NO_REST, timedelta(milliseconds=1), NO_REST)
    await soon(service)
    assert service.rounds == 3
    assert service.is_closed


async def test_a_stop_ends_a_rest() -> None:
    service = Scripted(LONG, LONG)
    run = asyncio.create_task(soon(service))
    await asyncio.sleep(0.01)
    assert service.rounds == 1
    service.stop()
    await run
    assert service.rounds == 1


async def test_what_was_stopped_before_it_ran_does_nothing_and_is_closed() -> None:
    service = Scripted(NO_REST)
    service.stop()
    await soon(service)
    assert service.rounds == 0
    assert service.is_closed


async def test_an_outage_is_counted_once_and_waited_for() -> None:
    service = Scripted(Away(), Away(), NO_REST, Away(), NO_REST)
    await soon(service)
    assert service.rounds == 5
    assert service.outages.count == 2


async def test_what_waiting_cannot_mend_ends_it_and_it_is_closed() -> None:
    service = Scripted(NO_REST, ValueError("a bug"), NO_REST)
    with pytest.raises(ValueError, match="a bug"):
        await soon(service)
    assert service.rounds == 2
    assert service.is_closed


async def test_what_is_cancelled_is_closed() -> None:
    service = Scripted(LONG, LONG)
    run = asyncio.create_task(service.run())
    await asyncio.sleep(0.01)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert service.is_closed


async def test_if_one_ends_all_are_stopped() -> None:
    others = Resting(), Resting()
    await soon(Together(others[0], Scripted(NO_REST), others[1]))
    assert all(one.has_ended for one in others)


async def test_if_one_fails_all_are_stopped_and_it_is_said() -> None:
    other = Resting()
    with pytest.raises(ValueError, match="a bug"):
        await soon(Together(other, Scripted(ValueError("a bug"), NO_REST)))
    assert other.has_ended


async def test_if_several_fail_the_first_of_them_is_said() -> None:
    first, second = Resting(failing(ValueError("first"))), Resting(failing(ValueError("second")))
    with pytest.raises(ValueError, match="first"):
        await soon(Together(Scripted(NO_REST), first, second))


async def test_all_are_stopped_together() -> None:
    services = Resting(), Resting()
    together = Together(*services)
    run = asyncio.create_task(soon(together))
    await asyncio.sleep(0.01)
    together.stop()
    await run
    assert all(one.has_ended for one in services)


async def test_a_cancelled_run_waits_for_all_of_them_to_end() -> None:
    services = Scripted(LONG, LONG), Scripted(LONG, LONG)
    run = asyncio.create_task(Together(*services).run())
    await asyncio.sleep(0.01)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert all(one.is_closed for one in services)


async def test_a_rest_ends_by_itself() -> None:
    async with asyncio.timeout(10):
        await rest(asyncio.Event(), timedelta(milliseconds=1))
