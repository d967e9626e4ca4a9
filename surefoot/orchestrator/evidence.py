"""How far everybody is: asked of the log and of our own database, for the judgement of timers that have run out."""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet

from surefoot.database.connection import Connection
from surefoot.log.port import EventLog, TopicPartition
from surefoot.orchestrator.concerned import AtWait, Stored, concerned, outbox_headers, parked_headers
from surefoot.orchestrator.registry import Registry
from surefoot.orchestrator.silence import Due, Evidence

MOST_PARKED = 2000
"""More than this and nobody looks which sagas they concern: all are taken for concerned."""


class Witness:
    def __init__(self, consumer: str, registry: Registry, log: EventLog, schema: str) -> None:
        self.topics = frozenset(registry.reply_topics)
        self._registry = registry
        self._waited_for = sorted({name for name, _ in registry.waits})
        self._consumer = consumer
        self._log = log
        self._read = f"SELECT topic, partition, next_offset FROM {schema}.consumer_partitions WHERE consumer = $1::text"
        # What was drawn, committed or not: it is only a bound.
        self._written = f"""
            SELECT coalesce(pg_sequence_last_value(pg_get_serial_sequence('{schema}.outbox_events', 'position')), 0)"""
        # One statement, one picture: what is refused between two looks would be in neither.
        self._unsent = f"""
            SELECT min(position), NULL, NULL, NULL, NULL FROM {schema}.outbox_events
            WHERE status = 'PENDING' AND topic = ANY ($1::text[])
            UNION ALL
            (SELECT NULL, key, event_type, headers::text, CASE WHEN event_type = ANY ($2::text[]) THEN body END
             FROM {schema}.outbox_events WHERE status IN ('FAILED', 'HELD') AND topic = ANY ($1::text[])
             LIMIT {MOST_PARKED + 1})"""
        self._parked = f"""
            SELECT key, event_type, headers::text, value FROM {schema}.parked_events
            WHERE consumer = $1::text LIMIT {MOST_PARKED + 1}"""
        self._sent = f"""
            SELECT saga_id::text FROM {schema}.saga_history WHERE event_id = ANY ($1::text[]) AND kind = 'SENT'"""

    async def ask(self, connection: Connection, due: Sequence[Due]) -> Evidence:
        """Ends are asked for after what has to get past them, so that what was given by then lies before them: first
        the readers, then the outbox, then the log. What is parked is asked for after what was read."""
        readers = {one.reader for one in due if one.reader is not None}
        topics: dict[str, set[str]] = {}
        for name, where in readers:
            topics.setdefault(name, set()).add(where.topic)
        read_by = {name: await self._offsets_of(name, of) for name, of in topics.items()}
        rows = await connection.fetch(self._read, self._consumer)
        read = {TopicPartition(row[0], row[1]): row[2] or 0 for row in rows}
        stored = await self._parked_records(connection)
        first_unsent, refused = await self._in_the_outbox(connection)
        parked, parked_waits = await self._concerned(connection, [*stored, *refused])
        last_written = await connection.fetchval(self._written)
        ends = await self.ends({where.topic for _, where in readers})
        return Evidence(ends, read, read_by, last_written, first_unsent, parked, parked_waits)

    async def ends(self, further: Iterable[str] = ()) -> Mapping[TopicPartition, int]:
        found: dict[TopicPartition, int] = {}
        for topic in sorted(self.topics.union(further)):
            found |= await self._log.end_offsets(topic)
        return found

    async def _offsets_of(self, group: str, topics: Iterable[str]) -> Mapping[TopicPartition, int]:
        found: dict[TopicPartition, int] = {}
        for topic in sorted(topics):
            found |= await self._log.group_offsets(group, topic)
        return found

    async def _parked_records(self, connection: Connection) -> list[Stored]:
        rows = await connection.fetch(self._parked, self._consumer)
        return [Stored(row[0], row[1], parked_headers(row[2]), row[3]) for row in rows]

    async def _in_the_outbox(self, connection: Connection) -> tuple[int | None, list[Stored]]:
        """The first position that waits for a relay; and what was refused by the log, or is held behind that. The
        latter stays until somebody decides, so it stops the clocks of those whom it concerns and nobody else's."""
        rows = await connection.fetch(self._unsent, sorted(self.topics), self._waited_for)
        refused = [Stored(row[1], row[2], outbox_headers(row[3]), row[4]) for row in rows if row[1] is not None]
        return next(row[0] for row in rows if row[1] is None), refused

    async def _concerned(
        self, connection: Connection, stored: Sequence[Stored]
    ) -> tuple[AbstractSet[str], AbstractSet[AtWait]]:
        if len(stored) > MOST_PARKED:
            return Everything(), frozenset()
        found = [concerned(self._registry, one) for one in stored]
        causes = [one.cause for one in found if one.cause is not None]
        sagas = [row[0] for row in await connection.fetch(self._sent, causes)] if causes else []
        entities = frozenset[str]().union(*(one.entities for one in found))
        return entities.union(sagas), frozenset[AtWait]().union(*(one.waits for one in found))


class Everything(frozenset[str]):
    """A set that has everybody in it."""

    def __contains__(self, _: object) -> bool:
        return True
