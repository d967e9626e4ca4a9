"""What belongs to a dead letter: its saga, the flow, what waits behind it, what people decided about it."""

from uuid import UUID

from surefoot.database.connection import Connection
from surefoot.dlq.letters.letter_view import as_view, line_of
from surefoot.dlq.letters.pages import LINE
from surefoot.dlq.letters.views import EventLine, History, ItsApproval, ItsJob, SagaLink, Waiting, WaitingLine

MOST_SHOWN = 20
MOST_COUNTED = 1000


class Surroundings:
    def __init__(self, connection: Connection, schema: str) -> None:
        self._connection = connection
        self._schema = schema

    async def saga(self, line: EventLine) -> SagaLink | None:
        saga_id = _uuid(line.saga_id)
        if saga_id is None:
            return None
        row = await self._connection.fetchrow(
            f"""SELECT saga_id, saga_type, entity_id, status::text AS status, current_step
                FROM {self._schema}.saga_instances WHERE saga_id = $1::uuid""",
            saga_id,
        )
        return None if row is None else as_view(SagaLink, row)

    async def flow(self, line: EventLine) -> list[EventLine]:
        if line.correlation_id is None:
            return []
        rows = await self._connection.fetch(
            f"""SELECT {LINE} FROM {self._schema}.dlq_events e
                WHERE e.correlation_id = $1::text AND e.id <> $2::uuid ORDER BY e.id DESC LIMIT {MOST_SHOWN}""",
            line.correlation_id,
            line.id,
        )
        return [line_of(row) for row in rows]

    async def waiting(self, line: EventLine) -> Waiting | None:
        """From the consumer's own tables if they are in this database, else as it said when it was asked last."""
        return await self._parked_here(line) or await self._as_last_told(line.id)

    async def history(self, dlq_id: UUID) -> History:
        jobs = await self._connection.fetch(
            f"""SELECT j.id AS job_id, j.kind::text AS kind, j.status::text AS status, j.created_by, j.reason,
                    j.created_at, i.state::text AS state, i.answer, i.sentence, i.past_retention, i.answered_at
                FROM {self._schema}.dlq_job_items i JOIN {self._schema}.dlq_jobs j ON j.id = i.job_id
                WHERE i.dlq_id = $1::uuid ORDER BY j.created_at DESC, j.id DESC LIMIT {MOST_SHOWN}""",
            dlq_id,
        )
        approvals = await self._connection.fetch(
            f"""SELECT a.id AS approval_id, a.status::text AS status, a.reason, a.requested_by, a.requested_at,
                    a.expires_at, a.decided_by, a.decided_at, a.decision
                FROM {self._schema}.dlq_approval_items i JOIN {self._schema}.dlq_approvals a ON a.id = i.approval_id
                WHERE i.dlq_id = $1::uuid ORDER BY a.requested_at DESC, a.id DESC LIMIT {MOST_SHOWN}""",
            dlq_id,
        )
        return History(
            jobs=[as_view(ItsJob, row) for row in jobs],
            approvals=[as_view(ItsApproval, row) for row in approvals],
        )

    async def _parked_here(self, line: EventLine) -> Waiting | None:
        """Its consumer works on its partition in this database. Past MOST_COUNTED they are not counted."""
        place = (line.consumer, line.topic, line.partition)
        at = await self._connection.fetchval(
            f"""SELECT now() FROM {self._schema}.consumer_partitions
                WHERE consumer = $1::text AND topic = $2::text AND partition = $3::int""",
            *place,
        )
        if at is None:
            return None
        rows = await self._connection.fetch(
            f"""SELECT event_id, event_type, log_offset, parked_at FROM {self._schema}.parked_events
                WHERE consumer = $1::text AND topic = $2::text AND partition = $3::int AND key = $4::text
                    AND holds AND log_offset > $5::bigint
                ORDER BY log_offset LIMIT {MOST_COUNTED + 1}""",
            *place,
            line.key,
            line.log_offset,
        )
        return Waiting(
            known_from="consumer",
            at=at,
            count=min(len(rows), MOST_COUNTED),
            is_more=len(rows) > MOST_COUNTED,
            first=[as_view(WaitingLine, row) for row in rows[:MOST_SHOWN]],
        )

    async def _as_last_told(self, dlq_id: UUID) -> Waiting | None:
        row = await self._connection.fetchrow(
            f"""SELECT i.waiting_behind, i.answered_at FROM {self._schema}.dlq_job_items i
                    JOIN {self._schema}.dlq_jobs j ON j.id = i.job_id
                WHERE i.dlq_id = $1::uuid AND j.kind = 'inspect' AND i.waiting_behind IS NOT NULL
                    AND i.answered_at IS NOT NULL
                ORDER BY i.answered_at DESC LIMIT 1""",
            dlq_id,
        )
        if row is None:
            return None
        return Waiting(known_from="inspect", at=row[1], count=row[0], is_more=False, first=[])


def _uuid(text: str | None) -> UUID | None:
    try:
        return None if text is None else UUID(text)
    except ValueError:
        return None
