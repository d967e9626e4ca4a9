"""Looking at dead letters: groups, pages, one letter with all that belongs to it. Reads only, in the caller's
transaction. No page counts rows: a group's counts are kept as letters come and go."""

from uuid import UUID

from surefoot.database.connection import Connection
from surefoot.database.schema import checked_schema
from surefoot.dlq.letters import cursors
from surefoot.dlq.letters import pages as page_sql
from surefoot.dlq.letters.filters import Filter
from surefoot.dlq.letters.letter_view import Found, event_view, group_of, line_of, revealed
from surefoot.dlq.letters.surroundings import Surroundings
from surefoot.dlq.letters.views import EventPage, EventView, Group, GroupPage, History, Revealed
from surefoot.events import Catalogue

MOST = 200
"""Rows on a page, at most."""
_LETTER = f"""{page_sql.LINE}, e.recorded_at, e.received_at, e.record_key, e.value, e.headers::text AS headers,
    e.headers_left_out, e.failures::text AS failures, e.stack"""


class Looking:
    def __init__(self, connection: Connection, schema: str) -> None:
        self.connection = connection
        self.schema = checked_schema(schema)

    async def groups(self, wanted: Filter, after: str | None, limit: int) -> GroupPage:
        """A page of groups, the latest to begin first: that never changes, so pages stay as they are."""
        place = None if after is None else cursors.by_time_and_text(after)
        statement, values = page_sql.groups(self.schema, wanted, place, limit + 1)
        found = [group_of(row) for row in await self.connection.fetch(statement, *values)]
        page = found[:limit]
        is_last = len(found) == len(page)
        return GroupPage(groups=page, next=None if is_last else cursors.timed(page[-1].first_at, page[-1].fingerprint))

    async def group(self, fingerprint: str) -> Group | None:
        if "\x00" in fingerprint:
            return None
        row = await self.connection.fetchrow(
            f"SELECT {page_sql.GROUP} FROM {self.schema}.dlq_groups g WHERE g.fingerprint = $1::text", fingerprint
        )
        return None if row is None else group_of(row)

    async def events(self, wanted: Filter, after: str | None, limit: int) -> EventPage:
        """A page of letters, newest first. Letters that come meanwhile are before the first page, never in between.
        Where a time is asked for the order is that of failing; one that fails again meanwhile is a new failure."""
        place = None if after is None else cursors.by_time(after) if wanted.is_of_a_time else cursors.by_id(after)
        statement, values = page_sql.events(self.schema, wanted, place, limit + 1)
        found = [line_of(row) for row in await self.connection.fetch(statement, *values)]
        page = found[:limit]
        if len(found) == len(page):
            return EventPage(events=page, next=None)
        last = page[-1]
        return EventPage(
            events=page, next=cursors.timed(last.failed_at, last.id) if wanted.is_of_a_time else str(last.id)
        )

    async def event(self, dlq_id: UUID, catalogue: Catalogue) -> EventView | None:
        """One letter, masked by the declarations in the catalogue; with its saga, its flow, what waits behind it, and
        what was decided about it."""
        found = await self._letter(dlq_id)
        if found is None:
            return None
        around = Surroundings(self.connection, self.schema)
        return event_view(
            found,
            catalogue,
            saga=await around.saga(found.line),
            flow=await around.flow(found.line),
            waiting=await around.waiting(found.line),
            history=await around.history(dlq_id),
        )

    async def revealed(self, dlq_id: UUID) -> Revealed | None:
        """All of its record. That somebody looked is for the caller to record."""
        found = await self._letter(dlq_id)
        return None if found is None else revealed(found)

    async def history_of(self, dlq_id: UUID) -> History:
        return await Surroundings(self.connection, self.schema).history(dlq_id)

    async def _letter(self, dlq_id: UUID) -> Found | None:
        row = await self.connection.fetchrow(
            f"SELECT {_LETTER} FROM {self.schema}.dlq_events e WHERE e.id = $1::uuid", dlq_id
        )
        return None if row is None else Found.of(row)
