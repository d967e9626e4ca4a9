"""Looking at dead letters: groups, pages, and one letter with all that belongs to it.

Reads only, in the caller's transaction. No page counts rows: a group's counts are kept as letters come and go.
"""

import base64
from dataclasses import dataclass
from typing import TypeVar
from uuid import UUID

import orjson

from surefoot.database.connection import Connection, Row
from surefoot.database.schema import checked_schema
from surefoot.dlq.letters import pages
from surefoot.dlq.letters.filters import Filter
from surefoot.dlq.letters.masking import masked_headers, masked_payload, plain_headers, plain_payload
from surefoot.dlq.letters.views import (
    Counts,
    EventLine,
    EventPage,
    EventView,
    Failure,
    Group,
    GroupPage,
    History,
    ItsApproval,
    ItsJob,
    Revealed,
    SagaLink,
    View,
    Waiting,
    WaitingLine,
)
from surefoot.events import Catalogue

MOST = 200
"""Rows on a page, at most."""
_LETTER = f"""{pages.LINE}, e.recorded_at, e.received_at, e.record_key, e.value, e.headers::text AS headers,
    e.headers_left_out, e.failures::text AS failures, e.stack"""
MOST_SHOWN = 20
MOST_COUNTED = 1000
V = TypeVar("V", bound=View)
Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class Found:
    """A letter's row, read."""

    line: EventLine
    row: Row
    headers: Headers
    value: bytes | None

    @classmethod
    def of(cls, row: Row) -> "Found":
        return cls(line_of(row), row, decoded_headers(row["headers"]), row["value"])


class Looking:
    def __init__(self, connection: Connection, schema: str) -> None:
        self.connection = connection
        self.schema = checked_schema(schema)

    async def groups(self, wanted: Filter, after: str | None, limit: int) -> GroupPage:
        """A page of groups, the latest to begin first: that never changes, so pages stay as they are."""
        place = None if after is None else pages.by_time_and_text(after)
        statement, values = pages.groups(self.schema, wanted, place, limit + 1)
        found = [group_of(row) for row in await self.connection.fetch(statement, *values)]
        page = found[:limit]
        is_last = len(found) == len(page)
        return GroupPage(groups=page, next=None if is_last else pages.timed(page[-1].first_at, page[-1].fingerprint))

    async def group(self, fingerprint: str) -> Group | None:
        if "\x00" in fingerprint:
            return None
        row = await self.connection.fetchrow(
            f"SELECT {pages.GROUP} FROM {self.schema}.dlq_groups g WHERE g.fingerprint = $1::text", fingerprint
        )
        return None if row is None else group_of(row)

    async def events(self, wanted: Filter, after: str | None, limit: int) -> EventPage:
        """A page of letters, newest first. Letters that come meanwhile are before the first page, never in between.
        Where a time is asked for the order is that of failing; one that fails again meanwhile is a new failure."""
        place = None if after is None else pages.by_time(after) if wanted.is_of_a_time else pages.by_id(after)
        statement, values = pages.events(self.schema, wanted, place, limit + 1)
        found = [line_of(row) for row in await self.connection.fetch(statement, *values)]
        page = found[:limit]
        if len(found) == len(page):
            return EventPage(events=page, next=None)
        last = page[-1]
        return EventPage(
            events=page, next=pages.timed(last.failed_at, last.id) if wanted.is_of_a_time else str(last.id)
        )

    async def event(self, dlq_id: UUID, catalogue: Catalogue) -> EventView | None:
        """One letter, masked by the declarations in the catalogue; with its saga, its flow, what waits behind it, and
        what was decided about it."""
        found = await self._letter(dlq_id)
        if found is None:
            return None
        return event_view(
            found,
            catalogue,
            saga=await self._saga(found.line),
            flow=await self._flow(found.line),
            waiting=await self._waiting(found.line),
            history=await self.history_of(dlq_id),
        )

    async def revealed(self, dlq_id: UUID) -> Revealed | None:
        """All of its record. That somebody looked is for the caller to record."""
        found = await self._letter(dlq_id)
        return None if found is None else revealed(found)

    async def history_of(self, dlq_id: UUID) -> History:
        """What people have decided about it, the latest first."""
        jobs = await self.connection.fetch(
            f"""SELECT j.id AS job_id, j.kind::text AS kind, j.status::text AS status, j.created_by, j.reason,
                    j.created_at, i.state::text AS state, i.answer, i.sentence, i.past_retention, i.answered_at
                FROM {self.schema}.dlq_job_items i JOIN {self.schema}.dlq_jobs j ON j.id = i.job_id
                WHERE i.dlq_id = $1::uuid ORDER BY j.created_at DESC, j.id DESC LIMIT {MOST_SHOWN}""",
            dlq_id,
        )
        approvals = await self.connection.fetch(
            f"""SELECT a.id AS approval_id, a.status::text AS status, a.reason, a.requested_by, a.requested_at,
                    a.expires_at, a.decided_by, a.decided_at, a.decision
                FROM {self.schema}.dlq_approval_items i JOIN {self.schema}.dlq_approvals a ON a.id = i.approval_id
                WHERE i.dlq_id = $1::uuid ORDER BY a.requested_at DESC, a.id DESC LIMIT {MOST_SHOWN}""",
            dlq_id,
        )
        return History(
            jobs=[as_view(ItsJob, row) for row in jobs],
            approvals=[as_view(ItsApproval, row) for row in approvals],
        )

    async def _letter(self, dlq_id: UUID) -> Found | None:
        row = await self.connection.fetchrow(
            f"SELECT {_LETTER} FROM {self.schema}.dlq_events e WHERE e.id = $1::uuid", dlq_id
        )
        return None if row is None else Found.of(row)

    async def _saga(self, line: EventLine) -> SagaLink | None:
        saga_id = _uuid(line.saga_id)
        if saga_id is None:
            return None
        row = await self.connection.fetchrow(
            f"""SELECT saga_id, saga_type, entity_id, status::text AS status, current_step
                FROM {self.schema}.saga_instances WHERE saga_id = $1::uuid""",
            saga_id,
        )
        return None if row is None else as_view(SagaLink, row)

    async def _flow(self, line: EventLine) -> list[EventLine]:
        if line.correlation_id is None:
            return []
        rows = await self.connection.fetch(
            f"""SELECT {pages.LINE} FROM {self.schema}.dlq_events e
                WHERE e.correlation_id = $1::text AND e.id <> $2::uuid ORDER BY e.id DESC LIMIT {MOST_SHOWN}""",
            line.correlation_id,
            line.id,
        )
        return [line_of(row) for row in rows]

    async def _waiting(self, line: EventLine) -> Waiting | None:
        """From the consumer's own tables if they are in this database, else as it said when it was asked last."""
        return await self._parked_here(line) or await self._as_last_told(line.id)

    async def _parked_here(self, line: EventLine) -> Waiting | None:
        """Its consumer works on its partition in this database. Past MOST_COUNTED they are not counted."""
        place = (line.consumer, line.topic, line.partition)
        at = await self.connection.fetchval(
            f"""SELECT now() FROM {self.schema}.consumer_partitions
                WHERE consumer = $1::text AND topic = $2::text AND partition = $3::int""",
            *place,
        )
        if at is None:
            return None
        rows = await self.connection.fetch(
            f"""SELECT event_id, event_type, log_offset, parked_at FROM {self.schema}.parked_events
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
        row = await self.connection.fetchrow(
            f"""SELECT i.waiting_behind, i.answered_at FROM {self.schema}.dlq_job_items i
                    JOIN {self.schema}.dlq_jobs j ON j.id = i.job_id
                WHERE i.dlq_id = $1::uuid AND j.kind = 'inspect' AND i.waiting_behind IS NOT NULL
                    AND i.answered_at IS NOT NULL
                ORDER BY i.answered_at DESC LIMIT 1""",
            dlq_id,
        )
        if row is None:
            return None
        return Waiting(known_from="inspect", at=row[1], count=row[0], is_more=False, first=[])


def as_view(kind: type[V], row: Row) -> V:
    return kind.model_validate({name: row[name] for name in kind.model_fields})


def line_of(row: Row) -> EventLine:
    return as_view(EventLine, row)


def group_of(row: Row) -> Group:
    counts = as_view(Counts, row)
    own = {name: row[name] for name in Group.model_fields if name not in ("counts", "total")}
    return Group(**own, counts=counts, total=sum(counts.model_dump().values()))


def event_view(
    found: Found,
    catalogue: Catalogue,
    *,
    saga: SagaLink | None,
    flow: list[EventLine],
    waiting: Waiting | None,
    history: History,
) -> EventView:
    row = found.row
    payload = masked_payload(found.value, found.headers, catalogue)
    return EventView(
        **found.line.model_dump(),
        recorded_at=row["recorded_at"],
        received_at=row["received_at"],
        payload_form=payload.form,
        payload=payload.value,
        value_bytes=None if found.value is None else len(found.value),
        headers=masked_headers(found.headers),
        headers_left_out=row["headers_left_out"],
        failures=[Failure(at=str(at), error=str(error)) for at, error in orjson.loads(row["failures"])],
        stack=row["stack"],
        saga=saga,
        flow=flow,
        waiting=waiting,
        history=history,
    )


def revealed(found: Found) -> Revealed:
    payload = plain_payload(found.value, found.headers)
    return Revealed(
        id=found.line.id,
        event_id=found.line.event_id,
        event_type=found.line.event_type,
        payload_form=payload.form,
        payload=payload.value,
        headers=plain_headers(found.headers),
        record_key_base64=_encoded(found.row["record_key"]),
        value_base64=_encoded(found.value),
        headers_base64=[(name, _encoded(value)) for name, value in found.headers],
    )


def decoded_headers(headers: str) -> Headers:
    return tuple((name, None if value is None else base64.b64decode(value)) for name, value in orjson.loads(headers))


def _encoded(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()


def _uuid(text: str | None) -> UUID | None:
    try:
        return None if text is None else UUID(text)
    except ValueError:
        return None
