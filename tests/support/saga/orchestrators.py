"""Orchestrators for tests, in this process, with a relay and the service they command."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta

import asyncpg

from surefoot import outbox
from surefoot.consumer import Consumer
from surefoot.consumer_runtime.settings import ConsumerSettings
from surefoot.events import EventData
from surefoot.log.port import EventLog
from surefoot.orchestrator.runtime import OrchestratorRuntime
from surefoot.orchestrator.settings import OrchestratorSettings
from surefoot.saga import Saga
from tests.support.consumer.processes import QUICK as QUICK_CONSUMER
from tests.support.consumer.processes import consumer_running
from tests.support.relay.processes import relay_running
from tests.support.waiting import LONG_ENOUGH_S, eventually

QUICK = {
    "timer_poll": timedelta(milliseconds=20),
    "grace": timedelta(seconds=2),
    "housekeeping": timedelta(milliseconds=200),
}


@asynccontextmanager
async def orchestrator_running(
    sagas: Sequence[Saga], url: str, log: EventLog, **changes: object
) -> AsyncIterator[OrchestratorRuntime]:
    settings = OrchestratorSettings(**{**QUICK, **changes})  # type: ignore[arg-type]
    reading = ConsumerSettings(**QUICK_CONSUMER)  # type: ignore[arg-type]
    runtime = OrchestratorRuntime(sagas, url, log, settings, reading)
    running = asyncio.create_task(runtime.run())
    try:
        yield runtime
    finally:
        runtime.stop()
        await running


@dataclass
class Stage:
    """A database with a relay, and what can be asked of its sagas."""

    url: str
    connection: asyncpg.Connection
    log: EventLog

    async def publish(self, *data: EventData) -> None:
        """As a service would: in a transaction, by its outbox."""
        async with outbox.transaction(self.connection) as tx:
            for one in data:
                tx.add(one)

    async def statuses(self) -> dict[str, str]:
        rows = await self.connection.fetch("SELECT entity_id, status::text FROM surefoot.saga_instances")
        return {row[0]: row[1] for row in rows}

    async def becomes(self, entity: str, status: str, within_s: float = LONG_ENOUGH_S) -> None:
        async def is_so() -> bool:
            return (await self.statuses()).get(entity) == status

        try:
            await eventually(is_so, what=f"{entity} is {status}", within_s=within_s)
        except AssertionError as late:
            raise AssertionError(f"{late}\n{await self.statuses()}\n{await self.history(entity)}") from late

    async def waits_for(self, entity: str, step: str, direction: str = "do") -> None:
        asked = "SELECT current_step, current_direction FROM surefoot.saga_instances WHERE entity_id = $1"

        async def is_so() -> bool:
            row = await self.connection.fetchrow(asked, entity)
            return row is not None and (row[0], row[1]) == (step, direction)

        await eventually(is_so, what=f"{entity} waits for the {direction} of {step}")

    async def history(self, entity: str) -> list[str]:
        rows = await self.connection.fetch(
            "SELECT h.kind, h.step, h.direction, h.attempt FROM surefoot.saga_history h "
            "JOIN surefoot.saga_instances USING (saga_id) WHERE entity_id = $1 ORDER BY id",
            entity,
        )
        return [" ".join(str(part) for part in row if part is not None) for row in rows]

    async def effects(self, trip_id: str) -> list[str]:
        rows = await self.connection.fetch(
            "SELECT direction, step FROM trip_effects WHERE trip_id = $1 ORDER BY n", trip_id
        )
        return [f"{row[0]} {row[1]}" for row in rows]


@asynccontextmanager
async def on_stage(
    stage: Stage, sagas: Sequence[Saga], consumers: Sequence[Consumer], **changes: object
) -> AsyncIterator[OrchestratorRuntime]:
    """A relay, the services, and an orchestrator."""
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(relay_running(stage.url, stage.log))
        for consumer in consumers:
            await stack.enter_async_context(consumer_running(consumer, stage.url, stage.log))
        yield await stack.enter_async_context(orchestrator_running(sagas, stage.url, stage.log, **changes))
