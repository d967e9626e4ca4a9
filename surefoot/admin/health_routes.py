"""Whether the service is well, for everybody; and what it can do, for whoever may look."""

from typing import Any, Literal

from fastapi import APIRouter, Request
from pydantic import Field

from surefoot.admin.operation import PREFIX, Operation, allowed, open_to_all
from surefoot.admin.problems import READ_PROBLEMS
from surefoot.admin.reading import Reading
from surefoot.dlq.letters.views import View
from surefoot.http.problems import described

router = APIRouter(prefix=PREFIX, route_class=Operation, tags=["health"])


class Health(View):
    status: Literal["ok"] = Field(description="ok")


@router.get(
    "/healthz",
    summary="Whether it can answer",
    responses=described({503: "The database does not answer."}),
    openapi_extra=open_to_all(),
)
async def healthz(request: Request, connection: Reading) -> Health:
    """200 if the database answers and has the dead letters' tables; else 503."""
    await connection.fetchrow(f"SELECT 1 FROM {request.app.state.schema}.dlq_groups LIMIT 1")
    return Health(status="ok")


@router.get(
    "/openapi.json",
    summary="This description",
    responses=READ_PROBLEMS,
    include_in_schema=False,
    openapi_extra=allowed("VIEWER"),
)
async def description(request: Request) -> dict[str, Any]:
    """Everything the service can be asked for, and who may."""
    found: dict[str, Any] = request.app.openapi()
    return found
