"""Export: all dead letters that a filter matches, masked, as a file that is written while it is read."""

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query, Request
from fastapi.responses import StreamingResponse

from surefoot.admin.models import AskedExport
from surefoot.admin.operation import PREFIX, Operation, allowed
from surefoot.admin.problems import READ_PROBLEMS
from surefoot.admin.reading import READ_ONLY
from surefoot.audit.people import Person
from surefoot.audit.record import Act, record
from surefoot.database.connection import Pool
from surefoot.dlq.letters import pages as page_sql
from surefoot.dlq.letters.export import COLUMNS, MEDIA_TYPE, Format, beginning, lines
from surefoot.dlq.letters.filters import Filter

AT_ONCE = 50
"""Letters read at a time: each may have a megabyte."""
router = APIRouter(prefix=PREFIX, route_class=Operation, responses=READ_PROBLEMS, tags=["dead letters"])
A_FILE: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The file.",
        "content": {"text/csv": {"schema": {"type": "string"}}, "application/jsonl": {"schema": {"type": "string"}}},
    }
}


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
