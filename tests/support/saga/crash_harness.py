"""What the sagas' crash tests stand on: a relay and a service in this process, which a test takes away and gives back;
orchestrators in processes of their own, which are ended in any case; and what the checkers want to know.
"""

import json
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path

import asyncpg

from surefoot.consumer.contracts import CONTROL_TYPE, TARGET_HEADER
from surefoot.events import Event, EventData, new_event
from surefoot.log.port import EventLog, Record, TopicPartition, key_hash, partition_of
from tests.support.checkers.saga import (
    Line,
    Plan,
    SagaEffect,
    SagaFinding,
    SagaRow,
    cancelled_by_outage,
    check_sagas,
)
from tests.support.consumer import processes as consuming
from tests.support.consumer.processes import consumer_running, create_topics, publish_records, record_of
from tests.support.processes import end
from tests.support.relay.processes import RelayProcess, as_environment, relay_running, start_process
from tests.support.saga.crash_app import ATTEMPTS, NAME, POISON, TIMEOUT_S, orchestrator_name, topics_of
from tests.support.saga.crash_service import EFFECTS, Service, consumer_of
from tests.support.saga.orchestrators import QUICK, Stage
from tests.support.saga.trips import TripRequested
from tests.support.waiting import LONG_ENOUGH_S, eventually

PARTITIONS = 8
STEPS = ("book", "charge", "confirm", "send_ticket")
NEW_STEPS = ("book", "charge", "insure", "confirm", "send_ticket")
PLANS = {("trip", 1): Plan(STEPS, "confirm"), ("trip", 2): Plan(NEW_STEPS, "confirm")}
OrchestratorProcess = RelayProcess
"""The same handle: a process with a log, that can be signalled and waited for."""


@dataclass
class Ground(Stage):
    kafka: str | None
    name: str
    directory: Path
    service: Service = field(default_factory=Service)
    started: list[OrchestratorProcess] = field(default_factory=list)
    _relay: AsyncExitStack = field(default_factory=AsyncExitStack)
    _service: AsyncExitStack = field(default_factory=AsyncExitStack)

    # -- who is there ------------------------------------------------------------------------------------------------

    async def start(
        self,
        sagas: str = "sagas",
        *,
        failpoints: str = "",
        weakened: str = "",
        timeout_s: float = 0.5,
        attempts: int = 2,
        environment: Mapping[str, str] | None = None,
    ) -> OrchestratorProcess:
        """An orchestrator, or one with a protection taken out (see tests/support/weakened/orchestrator.py)."""
        module = ["tests.support.weakened", "orchestrator", weakened] if weakened else ["surefoot"]
        where = ["--database", self.url, *(["--kafka", self.kafka] if self.kafka else [])]
        ours = {
            **as_environment("SUREFOOT_ORCHESTRATOR", QUICK),
            **as_environment("SUREFOOT_CONSUMER", consuming.QUICK),
            "SUREFOOT_ORCHESTRATOR_LONGEST_DECISION": "PT2S",
            "SUREFOOT_KAFKA_SESSION_TIMEOUT": "PT2S",
            "SUREFOOT_LOG_LEASE": "PT2S",
            "SUREFOOT_FAILPOINTS": failpoints,
            NAME: self.name,
            "SUREFOOT_ORCHESTRATOR_NAME": orchestrator_name(self.name),
            TIMEOUT_S: str(timeout_s),
            ATTEMPTS: str(attempts),
            POISON: str(self.poison),
            **(environment or {}),
        }
        log = self.directory / f"orchestrator-{len(self.started)}.log"
        process = await start_process(
            [*module, "orchestrate", f"tests.support.saga.crash_app:{sagas}", *where], log, ours
        )
        self.started.append(process)
        return process

    async def relay_comes(self) -> None:
        await self._relay.enter_async_context(relay_running(self.url, self.log))

    async def relay_goes(self) -> None:
        await self._relay.aclose()

    async def service_comes(self) -> None:
        consumer = consumer_of(self.service, self.name)
        patient = timedelta(minutes=2)  # with whoever waits at a gate
        await self._service.enter_async_context(consumer_running(consumer, self.url, self.log, handler_timeout=patient))

    async def service_goes(self) -> None:
        await self._service.aclose()

    async def close(self) -> None:
        await end(*(one.process for one in self.started))
        for gate in self.service.gates.values():
            gate.set()
        await self._service.aclose()
        await self._relay.aclose()

    def logs(self) -> str:
        return "\n".join(f"--- {one.log.name} ({one.pid})\n{one.log.read_text()[-3000:]}" for one in self.started)

    # -- what happens ------------------------------------------------------------------------------------------------

    async def request(self, *trips: str) -> None:
        await self.publish(*(TripRequested(trip_id=trip) for trip in trips))

    async def put_into_the_log(self, *events: Event[EventData]) -> None:
        """As somebody else's relay would."""
        for event in events:
            await publish_records(self.log, {self.where("events", event.key): [record_of(event)]})

    async def answer(self, trip: str, step: str, reply: EventData) -> None:
        """Somebody answers the first attempt of a step, straight into the log."""
        asked = (
            "SELECT h.event_id FROM surefoot.saga_history h JOIN surefoot.saga_instances USING (saga_id) "
            "WHERE entity_id = $1 AND h.step = $2 AND h.kind = 'SENT' AND h.direction = 'do' AND h.attempt = 1"
        )
        command = await self.connection.fetchval(asked, trip, step)
        await self.put_into_the_log(replace(new_event(reply), causation_id=command))

    async def control(self, action: str, *, topic: str, consumer: str, key: str, source: str, event_id: str) -> None:
        """What the dead-letter service sends when an operator has decided."""
        decided = {"action": action, "consumer": consumer, "source": source, "event_id": event_id,
                   "by": "an operator", "why": "it is mended"}  # fmt: skip
        attributes = {"specversion": "1.0", "id": str(uuid.uuid4()), "source": "/tests/dlq", "type": CONTROL_TYPE,
                      "partitionkey": key}  # fmt: skip
        headers = [(f"ce_{name}", value.encode()) for name, value in attributes.items()]
        headers += [("content-type", b"application/json"), (TARGET_HEADER, consumer.encode())]
        record = Record(key.encode(), json.dumps(decided).encode(), headers)
        await publish_records(self.log, {self.where(topic, key): [record]})

    async def replay_the_dead(self, topic: str, consumer: str) -> None:
        """Wait for the one event that is dead there, and have it replayed."""
        asked = "SELECT key, source, event_id FROM surefoot.parked_events WHERE consumer = $1 AND state = 'DEAD'"
        row = await eventually(
            lambda: self.connection.fetchrow(asked, consumer), what=f"something is dead at {consumer}"
        )
        await self.control(
            "replay", topic=topic, consumer=consumer, key=row["key"], source=row["source"], event_id=row["event_id"]
        )

    def where(self, topic: str, key: str) -> TopicPartition:
        return TopicPartition(f"{self.name}.{topic}", partition_of(key_hash(key.encode()), PARTITIONS))

    @property
    def orchestrator(self) -> str:
        """The consumer that an orchestrator is."""
        return orchestrator_name(self.name)

    @property
    def poison(self) -> Path:
        return self.directory / "poison"

    # -- what became of it -------------------------------------------------------------------------------------------

    async def become(self, expected: dict[str, str], within_s: float = LONG_ENOUGH_S) -> None:
        async def is_so() -> bool:
            return await self.statuses() == expected

        try:
            await eventually(is_so, what="every saga is as it should be", within_s=within_s)
        except AssertionError as late:
            found = await self.statuses()
            wrong = [trip for trip, status in expected.items() if found.get(trip) != status]
            told = [f"{trip}: {found.get(trip)} {await self.history(trip)}" for trip in wrong[:5]]
            raise AssertionError("\n".join([str(late), *told, self.logs()])) from late

    async def have_ended(self, count: int, within_s: float = LONG_ENOUGH_S) -> None:
        """However: ended or stuck."""
        asked = "SELECT count(*) FROM surefoot.saga_instances WHERE ended_at IS NOT NULL OR status = 'STUCK'"

        async def is_so() -> bool:
            return bool(await self.connection.fetchval(asked) == count)

        try:
            await eventually(is_so, what=f"{count} sagas have ended", within_s=within_s)
        except AssertionError as late:
            raise AssertionError(f"{late}\n{await self.statuses()}\n{self.logs()}") from late

    async def effect_count(self) -> int:
        return int(await self.connection.fetchval("SELECT count(*) FROM effects"))

    async def become_done(self, count: int) -> None:
        """Until services have done so many things."""

        async def is_so() -> bool:
            return await self.effect_count() >= count

        try:
            await eventually(is_so, what=f"{count} effects are there")
        except AssertionError as late:
            raise AssertionError(f"{late}\n{await self.statuses()}\n{self.logs()}") from late

    async def becomes_known(self, trip: str) -> None:
        async def is_so() -> bool:
            return trip in await self.statuses()

        try:
            await eventually(is_so, what=f"the saga of {trip} has begun")
        except AssertionError as late:
            raise AssertionError(f"{late}\n{self.logs()}") from late

    async def waits_at_gate(self, trip: str, step: str) -> None:
        async def is_so() -> bool:
            return (trip, step) in self.service.waiting

        try:
            await eventually(is_so, what=f"the {step} of {trip} waits at its gate")
        except AssertionError as late:
            raise AssertionError(f"{late}\n{await self.history(trip)}\n{self.logs()}") from late

    async def read_to_the_end(self) -> bool:
        """By the database's word: the orchestrator has every event behind it."""
        asked = "SELECT topic, partition, next_offset FROM surefoot.consumer_partitions WHERE consumer = $1"
        rows = await self.connection.fetch(asked, self.orchestrator)
        found = {TopicPartition(row[0], row[1]): row[2] or 0 for row in rows}
        ends = {
            **await self.log.end_offsets(f"{self.name}.events"),
            **await self.log.end_offsets(f"{self.name}.replies"),
        }
        return all(found.get(where, 0) >= end for where, end in ends.items())

    async def has_a_share(self, member: OrchestratorProcess) -> bool:
        """Whether it owns partitions, by the database's word."""
        assert member.process.returncode is None, member.log.read_text()
        asked = "SELECT DISTINCT owner FROM surefoot.consumer_partitions WHERE consumer = $1"
        rows = await self.connection.fetch(asked, self.orchestrator)
        return member.pid in {int(row["owner"].split("-")[-2]) for row in rows}

    async def rows(self) -> tuple[list[SagaRow], list[Line]]:
        sagas = await self.connection.fetch(
            "SELECT saga_id::text, saga_type, definition_version, entity_id, start_event_id, status::text, "
            "current_step FROM surefoot.saga_instances"
        )
        lines = await self.connection.fetch(
            "SELECT saga_id::text, id, kind, step, direction, attempt, before::text, after::text "
            "FROM surefoot.saga_history"
        )
        return [SagaRow(*row) for row in sagas], [Line(*row) for row in lines]

    async def findings(self) -> list[SagaFinding]:
        sagas, lines = await self.rows()
        rows = await self.connection.fetch("SELECT saga_id, step, direction, n FROM effects")
        return check_sagas(sagas, lines, [SagaEffect(*row) for row in rows], PLANS)

    async def cancelled(self) -> list[SagaFinding]:
        """For stories in which nobody refuses or fails."""
        return cancelled_by_outage(*await self.rows())

    async def violations(self) -> set[str]:
        return {finding.violation for finding in await self.findings()}

    async def effects(self, trip_id: str) -> list[str]:
        rows = await self.connection.fetch(
            "SELECT direction, step FROM effects JOIN surefoot.saga_instances s ON s.saga_id::text = effects.saga_id "
            "WHERE entity_id = $1 ORDER BY n",
            trip_id,
        )
        return [f"{row[0]} {row[1]}" for row in rows]


@asynccontextmanager
async def laid(url: str, log: EventLog, kafka: str | None, directory: Path) -> AsyncIterator[Ground]:
    """With a relay and the service at work, and no orchestrator yet."""
    connection = await asyncpg.connect(url)
    await connection.execute(EFFECTS)
    name = f"trip{uuid.uuid4().hex[:10]}"
    with topics_of(name) as topics:
        await create_topics(log, *topics, partitions=PARTITIONS)
        ground = Ground(url, connection, log, kafka, name, directory)
        try:
            await ground.relay_comes()
            await ground.service_comes()
            yield ground
        finally:
            await ground.close()
            await connection.close()
            await log.close()
