"""Replay, and the jobs that carry out what was decided."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Path, Query, Request, Response

from surefoot.admin.idempotency import Write
from surefoot.admin.models import AskedPage, AskedRows, Reason, Replay
from surefoot.admin.operation import PREFIX, Operation, allowed
from surefoot.admin.problems import ONE_PROBLEMS, READ_PROBLEMS, WRITE_PROBLEMS
from surefoot.admin.reading import LookAtJobs
from surefoot.database.connection import Connection
from surefoot.dlq.jobs.jobs import Jobs
from surefoot.dlq.jobs.views import ItemPage, JobMade, JobPage, JobView

JobId = Annotated[UUID, Path(description="The job's id.")]
router = APIRouter(prefix=PREFIX, route_class=Operation, responses=READ_PROBLEMS, tags=["jobs"])
OF_ONE = {**ONE_PROBLEMS, **WRITE_PROBLEMS}


@router.post(
    "/replay",
    summary="Try dead events again",
    status_code=202,
    response_model=JobMade,
    responses=WRITE_PROBLEMS,
    openapi_extra=allowed("OPERATOR", "replay"),
)
async def replay(body: Replay, request: Request, write: Write) -> Response:
    """A job over the open ones of these, as they are now: the set is frozen. With `dry_run` it changes nothing."""
    state = request.app.state

    async def work(connection: Connection) -> JobMade:
        return await Jobs(connection, state.schema, state.settings).replay(
            write.person,
            body.wanted(),
            reason=body.reason,
            dry_run=body.dry_run,
            canary=body.canary,
            rate=body.rate,
            stop_on_error_rate=body.stop_on_error_rate,
        )

    return await write.do(work)


@router.get("/jobs", summary="Jobs, page by page", openapi_extra=allowed("VIEWER"))
async def jobs(asked: Annotated[AskedPage, Query()], looking: LookAtJobs) -> JobPage:
    """Newest first."""
    return await looking.page(None if asked.after is None else str(asked.after), asked.limit)


@router.get("/jobs/{id}", summary="One job", responses=ONE_PROBLEMS, openapi_extra=allowed("VIEWER"))
async def job(id: JobId, looking: LookAtJobs) -> JobView:  # noqa: A002 - the contract's name
    """How far it is: its counts add up to its total."""
    return await looking.get(str(id))


@router.get("/jobs/{id}/items", summary="What is in it", responses=ONE_PROBLEMS, openapi_extra=allowed("VIEWER"))
async def items(id: JobId, asked: Annotated[AskedRows, Query()], looking: LookAtJobs) -> ItemPage:  # noqa: A002
    """Its dead letters in the order they are sent, each with what the consumer answered."""
    return await looking.items(str(id), asked.after, asked.limit)


@router.post(
    "/jobs/{id}/pause",
    summary="Send nothing more for now",
    response_model=JobView,
    responses=OF_ONE,
    openapi_extra=allowed("OPERATOR", "pause"),
)
async def pause(id: JobId, body: Reason, request: Request, write: Write) -> Response:  # noqa: A002
    """What was sent already is still answered."""
    state = request.app.state

    async def work(connection: Connection) -> JobView:
        return await Jobs(connection, state.schema, state.settings).pause(write.person, str(id), body.reason)

    return await write.do(work, 200)


@router.post(
    "/jobs/{id}/resume",
    summary="Go on",
    response_model=JobView,
    responses=OF_ONE,
    openapi_extra=allowed("OPERATOR", "resume"),
)
async def resume(id: JobId, body: Reason, request: Request, write: Write) -> Response:  # noqa: A002
    """If it had paused by itself, what was answered so far counts no more against it."""
    state = request.app.state

    async def work(connection: Connection) -> JobView:
        return await Jobs(connection, state.schema, state.settings).resume(write.person, str(id), body.reason)

    return await write.do(work, 200)


@router.post(
    "/jobs/{id}/cancel",
    summary="Send nothing more",
    response_model=JobView,
    responses=OF_ONE,
    openapi_extra=allowed("OPERATOR", "cancel"),
)
async def cancel(id: JobId, body: Reason, request: Request, write: Write) -> Response:  # noqa: A002
    """What was not sent is open again at once; what was, when it is answered."""
    state = request.app.state

    async def work(connection: Connection) -> JobView:
        return await Jobs(connection, state.schema, state.settings).cancel(write.person, str(id), body.reason)

    return await write.do(work, 200)


@router.post(
    "/jobs/{id}/abandon",
    summary="Wait no more for answers",
    response_model=JobView,
    responses=OF_ONE,
    openapi_extra=allowed("ADMIN", "abandon"),
)
async def abandon(id: JobId, body: Reason, request: Request, write: Write) -> Response:  # noqa: A002
    """Of a cancelled job whose consumer will never answer: what was sent is open again, and the job ends."""
    state = request.app.state

    async def work(connection: Connection) -> JobView:
        return await Jobs(connection, state.schema, state.settings).abandon(write.person, str(id), body.reason)

    return await write.do(work, 200)
