"""Replay and discard, and the jobs that carry out what was decided.

A discard needs two people: one asks, another approves exactly that set, or refuses.
"""

from typing import Annotated, Self
from uuid import UUID

from fastapi import APIRouter, Path, Query, Response
from pydantic import Field, StringConstraints, model_validator

from surefoot.admin.idempotency import Write, Writing
from surefoot.admin.operation import (
    PREFIX,
    AskedPage,
    AskedRows,
    Body,
    LookAtApprovals,
    LookAtJobs,
    Operation,
    Reason,
    Why,
    allowed,
)
from surefoot.admin.problems import ONE_PROBLEMS, READ_PROBLEMS, WRITE_PROBLEMS
from surefoot.database.connection import Connection
from surefoot.dlq.jobs.approvals import Approvals
from surefoot.dlq.jobs.jobs import Jobs
from surefoot.dlq.jobs.request import Ids, Matching, Wanted
from surefoot.dlq.jobs.views import ApprovalPage, ApprovalView, AskedLetterPage, ItemPage, JobMade, JobPage, JobView
from surefoot.dlq.letters.filters import MOST_TEXT, Filter

OneId = Annotated[str, StringConstraints(min_length=1, max_length=MOST_TEXT)]
ApprovalId = Annotated[UUID, Path(description="The approval's id.")]
JobId = Annotated[UUID, Path(description="The job's id.")]
router = APIRouter(prefix=PREFIX, route_class=Operation, responses=READ_PROBLEMS, tags=["jobs"])
discards = APIRouter(prefix=PREFIX, route_class=Operation, responses=READ_PROBLEMS, tags=["discards"])
OF_ONE = {**ONE_PROBLEMS, **WRITE_PROBLEMS}


class Meant(Body):
    """Which dead letters: by their ids or their events' ids, or by a filter. One of the two."""

    event_id: list[OneId] | None = Field(None, min_length=1, description="Ids of dead letters, or of their events.")
    filter: Filter | None = Field(
        None, description='The open ones that it matches, when it is asked; {"status": "OPEN"} are all.'
    )
    reason: Why

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.event_id is None) == (self.filter is None):
            raise ValueError("say which dead letters with event_id or with filter: one of the two")
        if self.filter is not None and self.filter == Filter():
            raise ValueError('a filter with nothing in it would mean all there are: {"status": "OPEN"} says so')
        return self

    def wanted(self) -> Wanted:
        if self.filter is not None:
            return Matching(self.filter)
        return Ids(frozenset(self.event_id or ()))


class Replay(Meant):
    dry_run: bool = Field(False, description="Ask the consumers how each stands, and change nothing.")
    canary: int = Field(0, ge=0, le=100_000, description="So many first; it goes on only if all of them go well.")
    rate: float | None = Field(None, gt=0, le=100_000, allow_inf_nan=False, description="So many a second at most.")
    stop_on_error_rate: float | None = Field(
        None, ge=0, le=1, allow_inf_nan=False, description="It pauses when more than this share has failed."
    )


class Approve(Body):
    set_hash: str = Field(pattern="^[0-9a-f]{64}$", description="As the approval shows it: exactly this set.")
    reason: Why


def _jobs(write: Writing, connection: Connection) -> Jobs:
    return Jobs(connection, write.schema, write.settings)


def _approvals(write: Writing, connection: Connection) -> Approvals:
    return Approvals(connection, write.schema, write.settings)


@router.post(
    "/replay",
    summary="Try dead events again",
    status_code=202,
    response_model=JobMade,
    responses=WRITE_PROBLEMS,
    openapi_extra=allowed("OPERATOR", "replay"),
)
async def replay(body: Replay, write: Write) -> Response:
    """A job over the open ones of these, as they are now: the set is frozen. With `dry_run` it changes nothing."""

    async def work(connection: Connection) -> JobMade:
        return await _jobs(write, connection).replay(
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
async def pause(id: JobId, body: Reason, write: Write) -> Response:  # noqa: A002
    """What was sent already is still answered."""
    return await write.do(lambda connection: _jobs(write, connection).pause(write.person, str(id), body.reason), 200)


@router.post(
    "/jobs/{id}/resume",
    summary="Go on",
    response_model=JobView,
    responses=OF_ONE,
    openapi_extra=allowed("OPERATOR", "resume"),
)
async def resume(id: JobId, body: Reason, write: Write) -> Response:  # noqa: A002
    """If it had paused by itself, what was answered so far counts no more against it."""
    return await write.do(lambda connection: _jobs(write, connection).resume(write.person, str(id), body.reason), 200)


@router.post(
    "/jobs/{id}/cancel",
    summary="Send nothing more",
    response_model=JobView,
    responses=OF_ONE,
    openapi_extra=allowed("OPERATOR", "cancel"),
)
async def cancel(id: JobId, body: Reason, write: Write) -> Response:  # noqa: A002
    """What was not sent is open again at once; what was, when it is answered."""
    return await write.do(lambda connection: _jobs(write, connection).cancel(write.person, str(id), body.reason), 200)


@router.post(
    "/jobs/{id}/abandon",
    summary="Wait no more for answers",
    response_model=JobView,
    responses=OF_ONE,
    openapi_extra=allowed("ADMIN", "abandon"),
)
async def abandon(id: JobId, body: Reason, write: Write) -> Response:  # noqa: A002
    """Of a cancelled job whose consumer will never answer: what was sent is open again, and the job ends."""
    return await write.do(lambda connection: _jobs(write, connection).abandon(write.person, str(id), body.reason), 200)


@discards.post(
    "/discard",
    summary="Ask for dead events to be given up",
    status_code=202,
    response_model=ApprovalView,
    responses=WRITE_PROBLEMS,
    openapi_extra=allowed("OPERATOR", "discard"),
)
async def discard(body: Meant, write: Write) -> Response:
    """They wait for another person's approval, for a limited time; meanwhile nobody else decides about them."""
    return await write.do(
        lambda connection: _approvals(write, connection).request(write.person, body.wanted(), body.reason)
    )


@discards.get("/approvals", summary="Discards that were asked for", openapi_extra=allowed("VIEWER"))
async def approvals(asked: Annotated[AskedPage, Query()], looking: LookAtApprovals) -> ApprovalPage:
    """Newest first."""
    return await looking.page(None if asked.after is None else str(asked.after), asked.limit)


@discards.get("/approvals/{id}", summary="One of them", responses=ONE_PROBLEMS, openapi_extra=allowed("VIEWER"))
async def approval(id: ApprovalId, looking: LookAtApprovals) -> ApprovalView:  # noqa: A002 - the contract's name
    """Who asked for it and why, the hash of its set, and what became of it."""
    return await looking.get(str(id))


@discards.get(
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


@discards.post(
    "/approvals/{id}/approve",
    summary="Approve exactly this set",
    status_code=202,
    response_model=ApprovalView,
    responses=OF_ONE,
    openapi_extra=allowed("SUPER_ADMIN", "approve"),
)
async def approve(id: ApprovalId, body: Approve, write: Write) -> Response:  # noqa: A002
    """By somebody else than who asked, in time, for the set with this hash. `job_id` is the job that carries it out."""
    return await write.do(
        lambda connection: _approvals(write, connection).approve(write.person, str(id), body.set_hash, body.reason)
    )


@discards.post(
    "/approvals/{id}/refuse",
    summary="Refuse it",
    response_model=ApprovalView,
    responses=OF_ONE,
    openapi_extra=allowed("SUPER_ADMIN", "refuse"),
)
async def refuse(id: ApprovalId, body: Reason, write: Write) -> Response:  # noqa: A002
    """Its dead letters are open again."""
    return await write.do(
        lambda connection: _approvals(write, connection).refuse(write.person, str(id), body.reason), 200
    )
