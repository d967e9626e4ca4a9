"""The service that the crash tests' sagas command, in the test's own process: it can be told to refuse, to be silent,
to die, or to wait at a gate. What it does are rows that name the saga, so that the checkers can judge each by itself.
"""

import asyncio
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import text

from surefoot.consumer import Consumer, Permanent, Transaction
from surefoot.events import Event, EventData
from tests.support.saga.crash_app import Insure, Insured, Uninsure, Uninsured
from tests.support.saga.trips import Agency, agency_consumer

EFFECTS = "CREATE TABLE effects (n bigint GENERATED ALWAYS AS IDENTITY, saga_id text, step text, direction text)"
HAVE_EFFECT = text("INSERT INTO effects (saga_id, step, direction) VALUES (:saga, :step, :direction)")


@dataclass
class Service(Agency):
    gates: dict[tuple[str, str], asyncio.Event] = field(default_factory=dict)
    """By trip and step: the do waits there, in its transaction."""
    waiting: set[tuple[str, str]] = field(default_factory=set)
    """Where somebody waits."""
    pace_s: float = 0.0
    """How long everything takes."""

    def close(self, trip_id: str, step: str) -> asyncio.Event:
        gate = self.gates[trip_id, step] = asyncio.Event()
        return gate

    async def act(
        self, event: Event[Any], tx: Transaction, done: EventData, refused: EventData | None = None
    ) -> EventData | None:
        assert tx.command is not None
        trip_id, step, direction = event.data.trip_id, tx.command.step, tx.command.direction
        if self.pace_s:
            await asyncio.sleep(self.pace_s)  # it works
        gate = self.gates.get((trip_id, step))
        if gate is not None and direction == "do":
            self.waiting.add((trip_id, step))
            await gate.wait()
        deed = self.deeds.get((trip_id, step, direction), "do")
        if deed == "refuse":
            return refused
        if deed == "die":
            raise Permanent("the agency is on fire")
        effect = {"saga": tx.command.saga_id, "step": step, "direction": direction}
        await tx.session.execute(HAVE_EFFECT, effect)
        return None if deed == "silent" else done


def consumer_of(service: Service, name: str) -> Consumer:
    consumer = agency_consumer(service, name)

    @consumer.command(Insure)
    async def on_insure(event: Event[Insure], tx: Transaction) -> EventData | None:
        return await service.act(event, tx, Insured(trip_id=event.data.trip_id))

    @consumer.command(Uninsure)
    async def on_uninsure(event: Event[Uninsure], tx: Transaction) -> EventData | None:
        return await service.act(event, tx, Uninsured(trip_id=event.data.trip_id))

    return consumer
