"""The looks that a process takes at what it needs, and what they say of its readiness."""

import asyncio
from datetime import timedelta

import pytest

from surefoot.cli import health as looking
from surefoot.cli.health import LogLook, Look, Watched, watched
from surefoot.errors import LogUnavailable
from surefoot.telemetry.health import Finding, Health
from tests.support.waiting import eventually


class Resting:
    """Runs until it is stopped."""

    def __init__(self) -> None:
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        self._stopping.set()

    async def run(self) -> None:
        await self._stopping.wait()


class Log:
    def __init__(self) -> None:
        self.is_away = False

    async def ask(self) -> None:
        if self.is_away:
            raise LogUnavailable("Kafka at 10.0.0.7:9092 does not answer user ana.")


def finding_of(look: Look) -> Finding:
    [finding] = look.readiness()
    return finding


async def test_a_look_notices_what_nobody_needs_just_now() -> None:
    log = Log()
    look = LogLook(log.ask)
    assert finding_of(look).ok is None
    assert await look.round() == looking.EVERY
    assert finding_of(look) == Finding("log", True, "the event log answers")
    log.is_away = True
    assert await look.round() == looking.AGAIN
    assert finding_of(look) == Finding("log", False, "the event log has not answered for 0 s")
    log.is_away = False
    await look.round()
    assert finding_of(look).ok


async def test_a_service_stops_at_once_also_while_a_look_waits_for_an_answer() -> None:
    asked, never = asyncio.Event(), asyncio.Event()

    async def hang() -> None:
        asked.set()
        await never.wait()

    health = Health()
    service = Watched(health, Resting(), LogLook(hang))
    running = asyncio.create_task(service.run())
    await asked.wait()
    service.stop()
    assert not health.ready().ok
    await asyncio.wait_for(running, 5)


async def test_looks_go_on_while_what_they_look_at_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looking, "AGAIN", timedelta(milliseconds=1))
    log, health = Log(), Health()
    log.is_away = True
    service = watched(health, Resting(), {}, log=log.ask)
    running = asyncio.create_task(service.run())

    async def is_wrong() -> bool:
        return "has not answered for" in str(health.ready().body)

    async def is_ready() -> bool:
        return health.ready().ok

    await eventually(is_wrong, what="it says that the log is away")
    log.is_away = False
    await eventually(is_ready, what="it is ready")
    service.stop()
    await running


async def test_a_process_that_nobody_can_ask_looks_at_nothing() -> None:
    service = Resting()
    assert watched(None, service, {"postgresql://there": "surefoot"}) is service
