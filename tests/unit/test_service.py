"""Long-running parts: rounds, rests, outages, and what becomes of the others when one of them ends."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import cast

import asyncpg
import pytest

from surefoot.database.connection import Connection
from surefoot.errors import SchemaOutdated
from surefoot.service import NO_REST, CutOff, DatabaseService, LoopService, Outage, Service, Together, rest

LONG = timedelta(hours=1)
SHORT = timedelta(milliseconds=1)


class Counter:
    def __init__(self) -> None:
        self.count = 0

    def inc(self) -> None:
        self.count += 1


class Away(Exception):
    """What waiting can mend."""


class Scripted(LoopService):
    """Does in each round what the script says next, and stops itself at its end."""

    def __init__(self, *script: timedelta | Exception, rest_first: timedelta = NO_REST) -> None:
        super().__init__("scripted", rest_first=rest_first)
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


class Opened:
    """A connection that says whether it was closed."""

    def __init__(self) -> None:
        self.is_closed = False

    async def close(self, *, timeout: float | None = None) -> None:
        self.is_closed = True


class OnDatabase(DatabaseService):
    """Does in each round what the script says next, on a connection, and stops itself at its end. `connecting`: what
    goes wrong with each connection in turn."""

    def __init__(self, *script: Exception | None, connecting: tuple[Exception | None, ...] = ()) -> None:
        self.outages = Counter()
        self.opened: list[Opened] = []
        self.begun: list[object] = []
        self.used: list[object] = []
        self._script = list(script)
        self._connecting = list(connecting)
        outage = Outage("the database", self.outages, shortest=SHORT, longest=SHORT)
        super().__init__("on the database", "postgresql://somewhere/there", self._open, outage)

    async def _open(self) -> Connection:
        trouble = self._connecting.pop(0) if self._connecting else None
        if trouble is not None:
            raise trouble
        self.opened.append(Opened())
        return cast(Connection, self.opened[-1])

    async def begin(self, connection: Connection) -> None:
        self.begun.append(connection)

    async def round(self) -> timedelta:
        self.used.append(await self.connected())
        step = self._script.pop(0)
        if not self._script:
            self.stop()
        if step is not None:
            raise step
        self.database_away.over()
        return NO_REST


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


class Deaf(Resting):
    """Does not end when it is stopped, and is slow to end when it is cancelled."""

    def __init__(self) -> None:
        super().__init__()
        self.cancelled = 0

    async def run(self) -> None:
        for _ in range(2):
            try:
                await asyncio.sleep(LONG.total_seconds())
            except asyncio.CancelledError:
                self.cancelled += 1
        self.has_ended = True


def failing(error: Exception) -> Callable[[], None]:
    def fail() -> None:
        raise error

    return fail


async def soon(service: Service) -> None:
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


async def test_it_may_rest_before_its_first_round() -> None:
    service = Scripted(NO_REST, rest_first=LONG)
    run = asyncio.create_task(soon(service))
    await asyncio.sleep(0.01)
    assert service.rounds == 0
    service.stop()
    await run
    assert service.rounds == 0
    assert service.is_closed

    rested = Scripted(NO_REST, rest_first=SHORT)
    await soon(rested)
    assert rested.rounds == 1


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


async def test_a_connection_is_opened_once_for_all_rounds_and_closed_at_the_end() -> None:
    service = OnDatabase(None, None, None)
    await soon(service)
    (connection,) = service.opened
    assert service.used == [connection] * 3
    assert service.begun == [connection]
    assert connection.is_closed


async def test_a_round_that_finds_the_database_away_drops_its_connection_and_the_next_opens_another() -> None:
    service = OnDatabase(None, OSError("gone"), None)
    await soon(service)
    first, second = service.opened
    assert service.used == [first, first, second]
    assert service.begun == [first, second]
    assert first.is_closed
    assert service.outages.count == 1


async def test_an_outage_of_the_database_is_not_over_when_it_can_be_reached() -> None:
    service = OnDatabase(OSError("gone"), OSError("gone"), OSError("gone"), None)
    await soon(service)
    assert len(service.opened) == 4
    assert service.outages.count == 1


async def test_a_database_that_takes_no_connection_is_waited_for() -> None:
    service = OnDatabase(None, connecting=(OSError("refused"), OSError("refused")))
    await soon(service)
    assert len(service.opened) == 1
    assert service.outages.count == 1


async def test_a_database_without_our_tables_ends_it_with_a_sentence() -> None:
    service = OnDatabase(asyncpg.UndefinedTableError("no such table"), None)
    with pytest.raises(SchemaOutdated, match="surefoot migrate"):
        await soon(service)
    assert service.opened[0].is_closed
    assert service.outages.count == 0


async def test_a_bug_on_a_connection_ends_it_as_it_is() -> None:
    service = OnDatabase(LookupError("a bug"), None)
    with pytest.raises(LookupError, match="a bug"):
        await soon(service)
    assert service.opened[0].is_closed


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


async def test_what_ends_in_time_is_not_cut_off() -> None:
    late: list[str] = []
    one, other = Resting(), Resting()
    service = CutOff(one, other, after=LONG, when_late=lambda: late.append("late"))
    run = asyncio.create_task(soon(service))
    await asyncio.sleep(0.01)
    service.stop()
    await run
    assert one.has_ended
    assert other.has_ended
    assert late == []


async def test_what_does_not_end_in_time_is_cut_off_again_and_again_until_it_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("surefoot.service.CLOSE_WITHIN_S", 0.01)
    late: list[str] = []
    deaf = Deaf()
    service = CutOff(deaf, Resting(), after=SHORT, when_late=lambda: late.append("late"))
    service.stop()
    await soon(service)
    assert deaf.has_ended
    assert deaf.cancelled == 2
    assert late == ["late"]


async def test_what_fails_among_those_that_are_cut_off_is_said() -> None:
    resting = Resting()
    with pytest.raises(ValueError, match="a bug"):
        await soon(CutOff(Scripted(ValueError("a bug"), NO_REST), resting, after=LONG))
    assert resting.has_ended


async def test_a_cancelled_run_cuts_off_at_once() -> None:
    service = Scripted(LONG, LONG)
    run = asyncio.create_task(CutOff(service, after=LONG).run())
    await asyncio.sleep(0.01)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert service.is_closed


async def test_a_rest_ends_by_itself() -> None:
    async with asyncio.timeout(10):
        await rest(asyncio.Event(), timedelta(milliseconds=1))


def test_an_outage_says_what_it_knows_of_the_readiness_of_a_process() -> None:
    outage = Outage("the database", Counter(), shortest=SHORT, longest=SHORT)
    assert outage.finding("database").ok is None  # nobody has needed it yet
    outage.failed(Away("postgresql://u:secret@there"))
    found = outage.finding("database")
    assert (found.ok, found.sentence) == (False, "the database has been away for 0 s")
    outage.over()
    assert outage.finding("database").ok is True


def test_what_runs_together_says_what_each_says_that_says_anything() -> None:
    on_database = OnDatabase(None)
    together = Together(Resting(), Together(on_database))
    assert list(together.readiness()) == [on_database.database_away.finding("database")]
