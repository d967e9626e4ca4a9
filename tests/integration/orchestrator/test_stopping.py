"""An orchestrator that is told to stop ends soon, whatever its database does."""

import asyncio
from typing import Any

import pytest

from surefoot.consumer_runtime.settings import ConsumerSettings
from surefoot.orchestrator.runtime import OrchestratorRuntime
from surefoot.orchestrator.settings import OrchestratorSettings
from tests.support.consumer.processes import QUICK as QUICK_CONSUMER
from tests.support.proxy import Proxy
from tests.support.saga.orchestrators import QUICK, Stage
from tests.support.saga.trips import trip_saga
from tests.support.waiting import eventually


class ReadsNothing:
    """A consumer that ends at once: what is beside it is looked at here."""

    name = "orchestrator"

    def __init__(self, *_: Any, **__: Any) -> None:
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        self._stopping.set()

    async def run(self) -> None:
        await self._stopping.wait()


async def test_timers_and_housekeeping_do_not_wait_for_a_database_that_fell_silent(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("surefoot.orchestrator.runtime.ConsumerRuntime", ReadsNothing)
    settings, reading = OrchestratorSettings(**QUICK), ConsumerSettings(**QUICK_CONSUMER)  # type: ignore[arg-type]
    asked = """SELECT count(*) FROM pg_stat_activity
               WHERE application_name = 'surefoot saga timers' AND datname = current_database()
                 AND query LIKE '%FROM surefoot.saga_timers t JOIN%'"""
    async with Proxy(stage.url) as proxy:
        runtime = OrchestratorRuntime([trip_saga()], proxy.url, stage.log, settings, reading)
        running = asyncio.create_task(runtime.run())
        await eventually(lambda: stage.connection.fetchval(asked), what="timers are looked after")
        proxy.silence()
        await asyncio.sleep(0.2)  # several times as long as it rests: it has asked, and nobody answers
        runtime.stop()
        await asyncio.wait_for(running, 15)
