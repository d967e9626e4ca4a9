"""What the consumers' crash tests stand on: a table of effects, a topic, processes that are ended in any case, and what
the checkers want to know, read from the log and the tables.
"""

import json
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import asyncpg

from surefoot.consumer.contracts import CONTROL_TYPE, TARGET_HEADER
from surefoot.events import Event, EventData, new_event
from surefoot.log.port import EventLog, Record, TopicPartition, key_hash, partition_of
from surefoot.testing.checkers import Finding
from tests.support.checkers.consumer import Effect, check_effects, unaccounted
from tests.support.consumer.crash_app import FAULTS, TOPIC
from tests.support.consumer.processes import ConsumerProcess, create_topics, publish_records, record_of, start_consumer
from tests.support.event_types import ThingHappened
from tests.support.processes import end
from tests.support.relay.processes import as_seen, read_all
from tests.support.waiting import LONG_ENOUGH_S, eventually

PARTITIONS = 8
APP = "tests.support.consumer.crash_app:consumer"
SCHEMA = """
    CREATE TABLE effects (
        n bigint GENERATED ALWAYS AS IDENTITY, event_id text, key text, number int, member text);
    CREATE TABLE faults (key text, number int);
"""


@dataclass
class Ground:
    url: str
    connection: asyncpg.Connection
    log: EventLog
    kafka: str | None
    topic: str
    directory: Path
    started: list[ConsumerProcess] = field(default_factory=list)
    numbers: dict[str, int] = field(default_factory=dict)
    """The numbers of the events that were published, by their ids."""
    events: dict[str, Event[EventData]] = field(default_factory=dict)
    _records: dict[str, Record] = field(default_factory=dict)

    # -- processes ---------------------------------------------------------------------------------------------------

    async def start(self, *, failpoints: str = "", weakened: str = "", **environment: str) -> ConsumerProcess:
        """`environment` in lower case and without the prefix: batch_records="1" is SUREFOOT_CONSUMER_BATCH_RECORDS,
        unless it is one of the app's own."""
        ours = {name if name.startswith("SUREFOOT_") else f"SUREFOOT_CONSUMER_{name.upper()}": value
                for name, value in environment.items()}  # fmt: skip
        process = await start_consumer(
            APP,
            self.url,
            self.kafka,
            self.directory / f"consumer-{len(self.started)}.log",
            failpoints=failpoints,
            weakened=weakened,
            environment={TOPIC: self.topic, **ours},
        )
        self.started.append(process)
        return process

    def logs(self) -> str:
        return "\n".join(f"--- {one.log.name} ({one.pid})\n{one.log.read_text()[-3000:]}" for one in self.started)

    # -- events ------------------------------------------------------------------------------------------------------

    def event(self, key: str, number: int, note: str = "") -> Event[EventData]:
        made = new_event(ThingHappened(thing_id=key, number=number, note=note))
        self.numbers[made.id], self.events[made.id] = number, made
        return made

    async def publish(self, events: Sequence[Event[EventData]]) -> None:
        """Put them into the log as a relay would: those of a key in order, a repeated one as often as it is there."""
        batches: dict[TopicPartition, list[Record]] = {}
        for event in events:
            record = self._records.get(event.id) or self._records.setdefault(event.id, record_of(event))
            batches.setdefault(self.where(event.key), []).append(record)
        await publish_records(self.log, batches)

    async def publish_some(self, count: int, *, keys: int = 40) -> None:
        """New events of many keys, every third of them three times."""
        first = len(self.numbers)
        events = [self.event(f"key-{number % keys}", number) for number in range(first, first + count)]
        again = events[::3]
        await self.publish([*events, *again, *again])

    async def control(self, action: str, event: Event[EventData]) -> None:
        """What the dead-letter service sends when an operator has decided."""
        decided = {"action": action, "consumer": self.topic, "source": event.source, "event_id": event.id,
                   "by": "an operator", "why": "it is mended"}  # fmt: skip
        attributes = {"specversion": "1.0", "id": str(uuid.uuid4()), "source": "/tests/dlq", "type": CONTROL_TYPE,
                      "partitionkey": event.key}  # fmt: skip
        headers = [(f"ce_{name}", value.encode()) for name, value in attributes.items()]
        headers += [("content-type", b"application/json"), (TARGET_HEADER, self.topic.encode())]
        record = Record(event.key.encode(), json.dumps(decided).encode(), headers)
        await publish_records(self.log, {self.where(event.key): [record]})

    def where(self, key: str) -> TopicPartition:
        return TopicPartition(self.topic, partition_of(key_hash(key.encode()), PARTITIONS))

    async def fail(self, key: str, number: int) -> None:
        await self.connection.execute("INSERT INTO faults VALUES ($1, $2)", key, number)

    async def heal(self) -> None:
        await self.connection.execute("DELETE FROM faults")

    # -- what became of them -----------------------------------------------------------------------------------------

    async def effect_count(self) -> int:
        return int(await self.connection.fetchval("SELECT count(*) FROM effects"))

    async def have_had_effects(self, event_ids: Sequence[str], within_s: float = LONG_ENOUGH_S) -> None:
        counted = "SELECT count(*) FROM effects WHERE event_id = ANY ($1)"

        async def all_had() -> bool:
            return bool(await self.connection.fetchval(counted, event_ids) >= len(event_ids))

        await eventually(all_had, what=f"{len(event_ids)} events have had their effects", within_s=within_s)

    async def effects_of(self, key: str) -> list[int]:
        rows = await self.connection.fetch("SELECT number FROM effects WHERE key = $1 ORDER BY n", key)
        return [row["number"] for row in rows]

    async def parked(self) -> dict[str, int]:
        rows = await self.connection.fetch("SELECT state::text, count(*) FROM surefoot.parked_events GROUP BY 1")
        return {row[0]: row[1] for row in rows}

    async def read_to_the_end(self) -> bool:
        """By the database's word: every record is behind the next offsets."""
        reached = await self.connection.fetch("SELECT partition, next_offset FROM surefoot.consumer_partitions")
        found = {TopicPartition(self.topic, row["partition"]): row["next_offset"] or 0 for row in reached}
        return all(found.get(where, 0) >= end for where, end in (await self.log.end_offsets(self.topic)).items())

    async def is_done(self) -> bool:
        """Everything is read, and nothing waits to be tried."""
        return await self.read_to_the_end() and not (await self.parked()).keys() - {"DEAD"}

    async def finished(self, within_s: float = LONG_ENOUGH_S) -> None:
        try:
            await eventually(self.is_done, what="everything is read and nothing waits", within_s=within_s)
        except AssertionError as late:
            raise AssertionError(f"{late}\n{await self.parked()}\n{self.logs()}") from late

    async def owners(self) -> set[int]:
        """The processes that own partitions, by the database's word."""
        rows = await self.connection.fetch("SELECT DISTINCT owner FROM surefoot.consumer_partitions")
        return {int(row["owner"].split("-")[-2]) for row in rows}

    async def findings(self) -> list[Finding]:
        """What the checkers have to say about effects, what was published, and the inbox."""
        seen = [event for event in as_seen(await read_all(self.log, self.topic)) if event.event_id in self.numbers]
        rows = await self.connection.fetch("SELECT event_id, key, n, member FROM effects")
        effects = [Effect(*row) for row in rows]
        rows = await self.connection.fetch("SELECT event_id, holds FROM surefoot.parked_events")
        holding, released = ({row["event_id"] for row in rows if row["holds"] is which} for which in (True, False))
        rows = await self.connection.fetch("SELECT event_id FROM surefoot.processed_events")
        tenths = [event for event in seen if self.numbers[event.event_id] % 10 == 0]
        return [
            *check_effects(seen, effects, holding=holding, released=released),
            *check_effects(tenths, await self._told(), holding=holding, released=released),
            *unaccounted(seen, {row["event_id"] for row in rows}),
        ]

    async def violations(self) -> set[str]:
        return {finding.violation for finding in await self.findings()}

    async def _told(self) -> list[Effect]:
        """What handlers published, under the names of the events that caused it."""
        rows = await self.connection.fetch(
            "SELECT key, position, headers::text FROM surefoot.outbox_events WHERE event_type = 'thing.told'"
        )
        return [Effect(dict(json.loads(row["headers"]))["ce_causationid"], row["key"], row["position"]) for row in rows]


@asynccontextmanager
async def laid(url: str, log: EventLog, kafka: str | None, topic: str, directory: Path) -> AsyncIterator[Ground]:
    connection = await asyncpg.connect(url)
    await connection.execute(SCHEMA)
    await create_topics(log, topic, partitions=PARTITIONS)
    ground = Ground(url, connection, log, kafka, topic, directory)
    try:
        yield ground
    finally:
        await end(*(one.process for one in ground.started))
        await connection.close()
        await log.close()


FAULTY = {FAULTS: "1"}
"""For `start`: the handler looks into the table of faults."""
