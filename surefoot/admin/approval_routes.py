"""Discards: one person asks, another approves exactly that set, or refuses."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Path, Query, Request, Response

from surefoot.admin.idempotency import Write
from surefoot.admin.models import Approve, AskedPage, Meant, Reason
from surefoot.admin.operation import PREFIX, Operation, allowed
from surefoot.admin.problems import ONE_PROBLEMS, READ_PROBLEMS, WRITE_PROBLEMS
from surefoot.admin.reading import LookAtApprovals
from surefoot.database.connection import Connection
from surefoot.dlq.jobs.approvals import Approvals
from surefoot.dlq.jobs.views import ApprovalPage, ApprovalView, AskedLetterPage

ApprovalId = Annotated[UUID, Path(description="The approval's id.")]
router = APIRouter(prefix=PREFIX, route_class=Operation, responses=READ_PROBLEMS, tags=["discards"])
OF_ONE = {**ONE_PROBLEMS, **WRITE_PROBLEMS}


@router.post(
    "/discard",
    summary="Ask for dead events to be given up",
    status_code=202,
    response_model=ApprovalView,
    responses=WRITE_PROBLEMS,
    openapi_extra=allowed("OPERATOR", "discard"),
)
async def discard(body: Meant, request: Request, write: Write) -> Response:
    """They wait for another person's approval, for a limited time; meanwhile nobody else decides about them."""
    state = request.app.state

    async def work(connection: Connection) -> ApprovalView:
        approvals = Approvals(connection, state.schema, state.settings)
        return await approvals.request(write.person, body.wanted(), body.reason)

    return await write.do(work)


@router.get("/approvals", summary="Discards that were asked for", openapi_extra=allowed("VIEWER"))
async def approvals(asked: Annotated[AskedPage, Query()], looking: LookAtApprovals) -> ApprovalPage:
    """Newest first."""
    return await looking.page(None if asked.after is None else str(asked.after), asked.limit)


@router.get("/approvals/{id}", summary="One of them", responses=ONE_PROBLEMS, openapi_extra=allowed("VIEWER"))
async def approval(id: ApprovalId, looking: LookAtApprovals) -> ApprovalView:  # noqa: A002 - the contract's name
    """Who asked for it and why, the hash of its set, and what became of it."""
    return await looking.get(str(id))


@router.get(
    "/approvals/{id}/letters",
    summary="What is to be given up",
    responses=ONE_PROBLEMS,
    openapi_extra=allowed("VIEWER"),
)
async def letters(
    id: ApprovalId,  # noqa: A002
    asked: Annotated[AskedPage, Query()],
    looking: LookAtApprovals,
) -> AskedLetterPage:
    """The dead letters of the set, the oldest first: look at them before you approve."""
    return await looking.letters(str(id), None if asked.after is None else str(asked.after), asked.limit)


@router.post(
    "/approvals/{id}/approve",
    summary="Approve exactly this set",
    status_code=202,
    response_model=ApprovalView,
    responses=OF_ONE,
    openapi_extra=allowed("SUPER_ADMIN", "approve"),
)
async def approve(id: ApprovalId, body: Approve, request: Request, write: Write) -> Response:  # noqa: A002
    """By somebody else than who asked, in time, for the set with this hash. `job_id` is the job that carries it out."""
    state = request.app.state

    async def work(connection: Connection) -> ApprovalView:
        approvals = Approvals(connection, state.schema, state.settings)
        return await approvals.approve(write.person, str(id), body.set_hash, body.reason)

    return await write.do(work)


@router.post(
    "/approvals/{id}/refuse",
    summary="Refuse it",
    response_model=ApprovalView,
    responses=OF_ONE,
    openapi_extra=allowed("SUPER_ADMIN", "refuse"),
)
async def refuse(id: ApprovalId, body: Reason, request: Request, write: Write) -> Response:  # noqa: A002
    """Its dead letters are open again."""
    state = request.app.state

    async def work(connection: Connection) -> ApprovalView:
        approvals = Approvals(connection, state.schema, state.settings)
        return await approvals.refuse(write.person, str(id), body.reason)

    return await write.do(work, 200)
