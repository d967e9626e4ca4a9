"""What the platform's chaos test stands on: what is open, what has been read, and what the checkers find at the end."""

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

from consumers.runtime import CONSUMERS
from orchestrator.sagas import sagas
from services.buyers import Buyers
from services.checks import contradictions
from services.demo.sagas import Counts, look
from services.local_platform.platform import Platform
from surefoot.database.connection import Connection, Row
from surefoot.log.port import EventLog, TopicPartition
from surefoot.orchestrator.deciding import NAME as ORCHESTRATOR
from surefoot.orchestrator.registry import Registry
from tests.support.checkers.saga import (
    Line,
    SagaRow,
    broken_histories,
    cancelled_by_outage,
    started_twice,
    unfinished,
)

_SAGAS = """
    SELECT saga_id::text, saga_type, definition_version, entity_id, start_event_id, status::text, current_step
    FROM surefoot.saga_instances"""
_HISTORY = """
    SELECT saga_id::text, id, kind, step, direction, attempt, before::text, after::text FROM surefoot.saga_history"""
_READ = "SELECT consumer, topic, partition, coalesce(next_offset, 0) FROM surefoot.consumer_partitions"
_CHARGED_TWICE = """
    SELECT order_id, count(*) FROM provider.charges WHERE charge_id IS NOT NULL AND status <> 'DECLINED'
    GROUP BY 1 HAVING count(*) > 1"""
_UNDONE_PAYMENTS = "SELECT count(*) FROM surefoot.saga_history WHERE kind = 'UNDONE' AND step = 'capture_payment'"
_NOT_ASKED_FOR = """
    SELECT order_id FROM returns.bought b WHERE confirmed AND order_id = ANY ($1::text[])
    AND NOT EXISTS (SELECT FROM returns.returns r WHERE r.order_id = b.order_id)"""
_OPEN = {
    "sagas": """
        SELECT saga_type, status, current_step, current_direction, reason, saga_id, updated_at,
               (SELECT array_agg(kind || ' ' || coalesce(step, '') || ' ' || coalesce(attempt::text, '') || ' ' ||
                                 coalesce(sentence, '') ORDER BY h.id)
                FROM surefoot.saga_history h WHERE h.saga_id = s.saga_id) AS history
        FROM surefoot.saga_instances s WHERE ended_at IS NULL ORDER BY updated_at LIMIT 8""",
    "timers": "SELECT t.*, now() FROM surefoot.saga_timers t ORDER BY fires_at LIMIT 8",
    "orders": "SELECT order_id, mode, status FROM orders.orders WHERE status IN ('PENDING_PAYMENT', 'PAID') LIMIT 8",
    "parked": "SELECT consumer, topic, key, state, attempts, reason, last_error FROM surefoot.parked_events LIMIT 8",
    "outbox": "SELECT topic, key, status, attempts FROM surefoot.outbox_events WHERE status <> 'PUBLISHED' LIMIT 8",
    "sessions": "SELECT state, count(*) FROM checkout.sessions GROUP BY 1",
}


@dataclass
class Ground:
    platform: Platform
    buyers: Buyers
    connection: Connection
    log: EventLog
    _expected: dict[str, set[str]] = field(default_factory=lambda: reading())

    async def rests(self) -> bool:
        """Nothing is under way, unsent, parked or unread; and nothing was written while we looked."""
        before = await self._ends()
        if await self._unread(before) or not (await look(self.connection)).rests or await self.not_asked_for():
            return False
        return await self._ends() == before

    async def counts(self) -> Counts:
        return await look(self.connection)

    async def not_asked_for(self) -> Sequence[str]:
        """Orders that were confirmed, whose buyers want to give them back and have not said so yet."""
        wanting = [order_id for order_id, wish in self.buyers.seen.placed.items() if wish.gives_back]
        return [row[0] for row in await self.connection.fetch(_NOT_ASKED_FOR, wanting)]

    async def charged_twice(self) -> dict[str, int]:
        return {row[0]: row[1] for row in await self.connection.fetch(_CHARGED_TWICE)}

    async def books(self) -> list[str]:
        """What does not add up in the books of all services. To be asked at rest: everybody has read everything."""
        return await contradictions(self.platform.settings)

    async def undone_payments(self) -> int:
        return int(await self.connection.fetchval(_UNDONE_PAYMENTS))

    async def stories(self, taken_back: Set[str]) -> list[str]:
        """What is wrong with the sagas and their histories; and which were given up though nobody refused anything and
        no person took them back."""
        rows = [SagaRow(*values(row)) for row in await self.connection.fetch(_SAGAS)]
        lines = [Line(*values(row)) for row in await self.connection.fetch(_HISTORY)]
        with_reason = {line.saga_id for line in lines if line.kind == "REFUSED"} | taken_back
        found = [
            *unfinished(rows),
            *broken_histories(rows, lines),
            *started_twice(rows),
            *cancelled_by_outage([row for row in rows if row.saga_id not in with_reason], lines),
        ]
        return [f"{finding.violation}: {finding.sentence}" for finding in found]

    async def told(self) -> str:
        """How everything stands, for whoever has to find out why it does not rest."""
        parts = [str(await self.counts()), f"not asked for: {list(await self.not_asked_for())[:5]}"]
        for what, query in _OPEN.items():
            parts += [f"--- {what}", *(str(row) for row in await self.connection.fetch(query))]
        unread = await self._unread(await self._ends())
        return "\n".join([*parts, "--- unread", *map(str, sorted(unread)[:20])])

    async def _ends(self) -> dict[TopicPartition, int]:
        ends: dict[TopicPartition, int] = {}
        for topic in sorted({topic for topics in self._expected.values() for topic in topics}):
            ends |= await self.log.end_offsets(topic)
        return ends

    async def _unread(self, ends: dict[TopicPartition, int]) -> list[tuple[str, TopicPartition, int, int]]:
        """Consumer, partition, how far it is, and where the end is."""
        rows = await self.connection.fetch(_READ)
        read = {(row[0], TopicPartition(row[1], row[2])): row[3] for row in rows}
        return [
            (consumer, where, read.get((consumer, where), 0), end)
            for consumer, topics in self._expected.items()
            for where, end in ends.items()
            if where.topic in topics and read.get((consumer, where), 0) < end
        ]


def reading() -> dict[str, set[str]]:
    """Which consumer reads which topics."""
    every: Iterable[tuple[str, set[str]]] = (
        (consumer.name, {topic.name for topic in consumer.topics})
        for consumers in CONSUMERS.values()
        for consumer in consumers
    )
    return {**dict(every), ORCHESTRATOR: set(Registry(sagas).reply_topics)}


def values(row: Row) -> tuple[Any, ...]:
    return tuple(row[position] for position in range(len(row)))
