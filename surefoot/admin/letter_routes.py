"""Looking at dead letters: groups, pages, one letter; and seeing what is masked, with a reason."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Path, Query, Request, Response

from surefoot.admin.idempotency import Write
from surefoot.admin.models import AskedLetters, Edit, Reason
from surefoot.admin.operation import PREFIX, Operation, allowed
from surefoot.admin.problems import ONE_PROBLEMS, READ_PROBLEMS, WRITE_PROBLEMS
from surefoot.admin.reading import Look
from surefoot.audit.record import Act, record
from surefoot.database.connection import Connection
from surefoot.dlq.errors import Declined, NoSuchLetter
from surefoot.dlq.jobs.jobs import Jobs
from surefoot.dlq.jobs.views import JobMade
from surefoot.dlq.letters.looking import Looking
from surefoot.dlq.letters.views import EventPage, EventView, Group, GroupPage, Revealed

LetterId = Annotated[UUID, Path(description="The dead letter's id.")]
Fingerprint = Annotated[str, Path(min_length=1, max_length=200, description="The group's fingerprint.")]
router = APIRouter(prefix=PREFIX, route_class=Operation, responses=READ_PROBLEMS, tags=["dead letters"])
OF_ONE = {**ONE_PROBLEMS, **WRITE_PROBLEMS}


class NoSuchGroup(NoSuchLetter):
    def __init__(self, fingerprint: str) -> None:
        Declined.__init__(self, f"There is no group {fingerprint}: look at the fingerprint.")


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
