"""The read API: sagas over HTTP, for pages and programs. It reads the tables and changes nothing.

Every answer comes from one read-only transaction. Errors are application/problem+json with a sentence. It has no access
control of its own: whoever reaches it reads everything, the sagas' contexts too.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated
from uuid import UUID

import structlog
from fastapi import APIRouter, Depends, FastAPI, Path, Query, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException

from surefoot.database.connection import DRIVER_ERRORS, Pool, create_pool, explain, is_outage
from surefoot.database.schema import DEFAULT_SCHEMA, checked_schema
from surefoot.errors import SurefootError
from surefoot.http.problems import (
    Make,
    Problem,
    answer_with_problems,
    described,
    http_error,
    invalid_parameters,
    told,
    without_reason,
)
from surefoot.orchestrator.looking import Looking, Wanted
from surefoot.orchestrator.views import HistoryLine, SagaLine, SagaView, StepCount, View
from surefoot.saga.instance import Status

log = structlog.get_logger("surefoot.orchestrator")
MOST = 200
CONNECTIONS = 8
STATEMENT_TIMEOUT_S = 10
READ_ONLY = f"""SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY;
    SET LOCAL statement_timeout = '{STATEMENT_TIMEOUT_S}s'"""
PROBLEMS = described(
    {
        404: "There is no such saga.",
        422: "A parameter cannot be used.",
        503: "The database does not answer.",
    }
)


class NoSuchSaga(SurefootError):
    def __init__(self, saga_id: UUID) -> None:
        super().__init__(f"There is no saga {saga_id}: look at the id. Those that ended long ago are removed.")


class Asked(BaseModel):
    """What a page of sagas is asked for by. A parameter that is not known is refused, not passed over."""

    model_config = ConfigDict(extra="forbid")

    status: Status | None = Field(None, description="Only of this status.")
    type: str | None = Field(None, description="Only of this name.")
    entity: str | None = Field(None, description="Only those about this: an order, a return.")
    step: str | None = Field(None, description="Only those that wait for this step.")
    after: UUID | None = Field(None, description="Behind this saga: `next` of the page before.")
    limit: int = Field(50, ge=1, le=MOST, description="Most sagas on the page.")


class AskedHistory(BaseModel):
    model_config = ConfigDict(extra="forbid")

    after: int = Field(0, ge=0, lt=2**63, description="Behind this line: `next` of the page before.")
    limit: int = Field(MOST, ge=1, le=MOST, description="Most lines on the page.")


class SagaPage(View):
    """Sagas, newest first."""

    sagas: list[SagaLine]
    next: UUID | None = Field(description="Ask for the next page with this as `after`; null on the last one.")


class HistoryPage(View):
    """What happened to a saga, in order."""

    lines: list[HistoryLine]
    next: int | None = Field(description="Ask for the next page with this as `after`; null on the last one.")


class Summary(View):
    """Sagas under way, by what they wait for."""

    steps: list[StepCount]


class Health(View):
    status: str = Field(description="ok")


async def _looking(request: Request) -> AsyncIterator[Looking]:
    pool: Pool = request.app.state.pool
    async with pool.acquire() as connection, connection.transaction():
        await connection.execute(READ_ONLY)
        yield Looking(connection, request.app.state.schema)


Look = Annotated[Looking, Depends(_looking, scope="function")]
SagaId = Annotated[UUID, Path(description="The saga's id.")]
router = APIRouter(responses=PROBLEMS)


@router.get("/sagas", summary="Sagas, page by page", tags=["sagas"])
async def sagas(asked: Annotated[Asked, Query()], looking: Look) -> SagaPage:
    """Newest first. Pages are stable: sagas that begin meanwhile come before the first page, never in between."""
    wanted = Wanted(asked.status, asked.type, asked.step, asked.entity)
    found = await looking.page(wanted, asked.after, asked.limit + 1)
    page = found[: asked.limit]
    return SagaPage(sagas=page, next=page[-1].saga_id if len(found) > len(page) else None)


@router.get("/sagas/summary", summary="How many wait for what", tags=["sagas"])
async def summary(looking: Look) -> Summary:
    """Sagas under way by type, status and step, and since when the longest of each has not changed."""
    return Summary(steps=await looking.summary())


@router.get("/sagas/{saga_id}", summary="One saga", tags=["sagas"])
async def saga(saga_id: SagaId, looking: Look) -> SagaView:
    """Where it stands: its steps with their attempts and results, its clock, what it was started with."""
    found = await looking.get(saga_id)
    if found is None:
        raise NoSuchSaga(saga_id)
    return found


@router.get("/sagas/{saga_id}/history", summary="What happened to it", tags=["sagas"])
async def history(saga_id: SagaId, asked: Annotated[AskedHistory, Query()], looking: Look) -> HistoryPage:
    """Every decision, reply, timer and operator's word, in the order in which they came."""
    if await looking.get(saga_id) is None:
        raise NoSuchSaga(saga_id)
    found = await looking.history(saga_id, after=asked.after, limit=asked.limit + 1)
    page = found[: asked.limit]
    return HistoryPage(lines=page, next=page[-1].id if len(found) > len(page) else None)


@router.get("/healthz", summary="Whether it can answer", tags=["health"])
async def healthz(looking: Look) -> Health:
    """200 if the database answers and has the sagas' tables; else 503."""
    await looking.page(Wanted(), None, 1)
    return Health(status="ok")


def api(url: str, schema: str = DEFAULT_SCHEMA) -> FastAPI:
    """The application. Its connections are opened when it starts and closed when it ends."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        pool = app.state.pool = await create_pool(url, name="surefoot saga api", size=CONNECTIONS)
        try:
            yield
        finally:
            await pool.close()

    app = FastAPI(
        title="Surefoot sagas",
        summary="Where sagas stand, and what has happened to them. Read only.",
        version="1",
        lifespan=lifespan,
    )
    app.state.schema = checked_schema(schema)
    app.include_router(router)
    answer_with_problems(app, _problems(url), without_reason)
    return app


def _problems(url: str) -> dict[type[Exception], Make]:
    def database(_: Request, error: Exception) -> Problem:
        ours = error if isinstance(error, SurefootError) else explain(error, url)
        log.warning("the read API has no answer from its database", error=str(ours))
        return Problem(503, "database", str(ours), retry_after_s=1 if is_outage(error) else None)

    def broken(_: Request, error: Exception) -> Problem:
        sentence = f"The read API itself is broken here ({type(error).__name__}): its log says where."
        return Problem(500, "broken", sentence)

    refused = {
        404: "There is nothing at {path}: what there is, is listed at /docs.",
        405: "{method} is not possible here: this API only reads, with GET.",
    }
    return {
        NoSuchSaga: told(404),
        RequestValidationError: invalid_parameters(
            unknown="{name} is not a parameter of this: see /docs for those there are."
        ),
        HTTPException: http_error(refused),
        SurefootError: database,
        **dict.fromkeys(DRIVER_ERRORS, database),
        Exception: broken,
    }
