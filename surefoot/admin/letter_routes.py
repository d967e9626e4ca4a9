"""Dead letters: groups, pages, one letter, a file of many; and seeing what is masked, with a reason.

An export is all dead letters that a filter matches, masked, as a file that is written while it is read.
"""

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import Field

from surefoot.admin.idempotency import Write
from surefoot.admin.operation import PREFIX, READ_ONLY, Body, Limit, Look, Operation, Reason, Why, allowed
from surefoot.admin.problems import ONE_PROBLEMS, READ_PROBLEMS, WRITE_PROBLEMS
from surefoot.audit.people import Person
from surefoot.audit.record import Act, record
from surefoot.database.connection import Connection, Pool
from surefoot.dlq.errors import Declined, NoSuchLetter
from surefoot.dlq.jobs.jobs import Jobs
from surefoot.dlq.jobs.views import JobMade
from surefoot.dlq.letters import pages as page_sql
from surefoot.dlq.letters.export import COLUMNS, MEDIA_TYPE, Format, beginning, lines
from surefoot.dlq.letters.filters import Filter
from surefoot.dlq.letters.looking import Looking
from surefoot.dlq.letters.views import EventPage, EventView, Group, GroupPage, Revealed

LONGEST_CURSOR = 300
AT_ONCE = 50
"""Letters read at a time: each may have a megabyte."""
After = Annotated[
    str | None, Field(max_length=LONGEST_CURSOR, description="Behind this place: `next` of the page before.")
]
LetterId = Annotated[UUID, Path(description="The dead letter's id.")]
Fingerprint = Annotated[str, Path(min_length=1, max_length=200, description="The group's fingerprint.")]
router = APIRouter(prefix=PREFIX, route_class=Operation, responses=READ_PROBLEMS, tags=["dead letters"])
OF_ONE = {**ONE_PROBLEMS, **WRITE_PROBLEMS}
A_FILE: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The file.",
        "content": {"text/csv": {"schema": {"type": "string"}}, "application/jsonl": {"schema": {"type": "string"}}},
    }
}


class NoSuchGroup(NoSuchLetter):
    def __init__(self, fingerprint: str) -> None:
        Declined.__init__(self, f"There is no group {fingerprint}: look at the fingerprint.")


class AskedLetters(Filter):
    """What a page of groups or letters is asked for by."""

    after: After = None
    limit: Limit = 50

    def filter(self) -> Filter:
        return Filter.model_validate(self.model_dump(include=set(Filter.model_fields)))


class AskedExport(Filter):
    format: Literal["csv", "jsonl"] = Field("csv", description="A table, or a JSON object on each line.")

    def filter(self) -> Filter:
        return Filter.model_validate(self.model_dump(include=set(Filter.model_fields)))


class Edit(Body):
    payload: Any = Field(description="The event's new data, as JSON.")
    reason: Why


@router.get("/groups", summary="What is broken, by cause", openapi_extra=allowed("VIEWER"))
async def groups(asked: Annotated[AskedLetters, Query()], looking: Look) -> GroupPage:
    """Groups that have a letter which the filter matches, the latest to begin first. Pages are stable."""
    return await looking.groups(asked.filter(), asked.after, asked.limit)


@router.get("/groups/{fingerprint}", summary="One group", responses=ONE_PROBLEMS, openapi_extra=allowed("VIEWER"))
async def group(fingerprint: Fingerprint, looking: Look) -> Group:
    """What its letters have in common, and how many are in each status."""
    found = await looking.group(fingerprint)
    if found is None:
        raise NoSuchGroup(fingerprint)
    return found


@router.get("/events", summary="Dead letters, page by page", openapi_extra=allowed("VIEWER"))
async def events(asked: Annotated[AskedLetters, Query()], looking: Look) -> EventPage:
    """Newest first; where a time is asked for, in the order of failing. Pages are stable."""
    return await looking.events(asked.filter(), asked.after, asked.limit)


@router.get("/events/{id}", summary="One dead letter", responses=ONE_PROBLEMS, openapi_extra=allowed("VIEWER"))
async def event(id: LetterId, request: Request, looking: Look) -> EventView:  # noqa: A002 - the contract's name
    """Its data with what is personal masked, its attempts, saga and flow, what waits behind it, what was decided."""
    found = await looking.event(id, request.app.state.catalogue)
    if found is None:
        raise NoSuchLetter(id)
    return found


@router.post(
    "/events/{id}/reveal",
    summary="All of it, unmasked",
    response_model=Revealed,
    responses=OF_ONE,
    openapi_extra=allowed("ADMIN", "reveal"),
)
async def reveal(id: LetterId, body: Reason, request: Request, write: Write) -> Response:  # noqa: A002
    """The data as they are, headers, raw bytes. Each look is recorded with its reason."""
    schema: str = request.app.state.schema

    async def work(connection: Connection) -> Revealed:
        found = await Looking(connection, schema).revealed(id)
        if found is None:
            raise NoSuchLetter(id)
        details = {"event_id": found.event_id}
        await record(connection, schema, Act(write.person.name, "reveal", "done", str(id), body.reason, details))
        return found

    # Not stored under a key: what is personal is not copied, and a second look is recorded as one.
    return await write.anew(work, 200)


@router.post(
    "/events/{id}/edit-replay",
    summary="Put a mended event in its place",
    status_code=202,
    response_model=JobMade,
    responses=OF_ONE,
    openapi_extra=allowed("ADMIN", "edit_replay"),
)
async def edit_replay(id: LetterId, body: Edit, request: Request, write: Write) -> Response:  # noqa: A002
    """A new event, caused by the old, takes its place for the consumer that gave up; the old is never tried again."""
    state = request.app.state

    async def work(connection: Connection) -> JobMade:
        jobs = Jobs(connection, state.schema, state.settings)
        return await jobs.edit(write.person, str(id), body.payload, reason=body.reason, catalogue=state.catalogue)

    return await write.do(work)


@router.get(
    "/export",
    summary="Dead letters as a file",
    response_class=StreamingResponse,
    responses=A_FILE,
    openapi_extra=allowed("ADMIN", "export"),
)
async def export(asked: Annotated[AskedExport, Query()], request: Request) -> StreamingResponse:
    """Masked; newest first. That somebody exported them is recorded before the first line leaves."""
    state, wanted = request.app.state, asked.filter()
    person: Person = request.state.person
    details = {"filter": wanted.model_dump(mode="json", exclude_none=True), "format": asked.format}
    act = Act(person.name, "export", "done", f"GET {request.url.path}", "", details)
    async with state.pool.acquire() as connection, connection.transaction():
        await record(connection, state.schema, act)
    return StreamingResponse(
        _file(state, wanted, asked.format),
        media_type=MEDIA_TYPE[asked.format],
        headers={"Content-Disposition": f'attachment; filename="dead-letters.{asked.format}"'},
    )


async def _file(state: Any, wanted: Filter, kind: Format) -> AsyncIterator[bytes]:
    """Page by page, each from a transaction of its own: a reader who takes their time keeps no connection."""
    yield beginning(kind)
    place: tuple[datetime, UUID] | UUID | None = None
    pool: Pool = state.pool
    while True:
        statement, values = page_sql.events(state.schema, wanted, place, AT_ONCE, COLUMNS)
        async with pool.acquire() as connection, connection.transaction():
            await connection.execute(READ_ONLY)
            found = await connection.fetch(statement, *values)
        for line in lines(found, kind, state.catalogue):
            yield line
        if len(found) < AT_ONCE:
            return
        last = found[-1]
        place = (last["failed_at"], last["id"]) if wanted.is_of_a_time else last["id"]
