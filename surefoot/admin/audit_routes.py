"""The audit log over HTTP: what was done and refused, and the head to write down elsewhere."""

from contextlib import aclosing
from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import Field

from surefoot.admin.operation import PREFIX, AskedRows, Operation, Reading, allowed
from surefoot.admin.problems import READ_PROBLEMS
from surefoot.audit.chain import AuditRow
from surefoot.audit.record import head, pages
from surefoot.dlq.letters.views import View

router = APIRouter(prefix=PREFIX, route_class=Operation, responses=READ_PROBLEMS, tags=["audit"])


class AskedNumbers(AskedRows):
    after: int | None = Field(None, ge=0, lt=2**63, description="Behind this number: `next` of the page before.")


class AuditLine(View):
    """What somebody did, or tried to do, with everything that is needed to check its seal."""

    number: int
    at: str
    person: str
    action: str
    outcome: str
    about: str
    reason: str
    details: str = Field(description="JSON, as the text that is sealed.")
    previous: str
    seal: str


class AuditPage(View):
    lines: list[AuditLine]
    next: int | None = Field(description="Ask for the next page with this as `after`; null on the last one.")


class AuditHead(View):
    """Written down elsewhere, it tells later whether somebody sealed the log anew."""

    number: int | None = Field(description="null while the log is empty.")
    seal: str | None


@router.get("/audit", summary="What people did, in order", openapi_extra=allowed("ADMIN"))
async def audit(asked: Annotated[AskedNumbers, Query()], request: Request, connection: Reading) -> AuditPage:
    """From the first on."""
    async with aclosing(pages(connection, request.app.state.schema, after=asked.after, size=asked.limit + 1)) as log:
        found: list[AuditRow] = await anext(log, [])
    lines = [AuditLine.model_validate(row.shown()) for row in found[: asked.limit]]
    return AuditPage(lines=lines, next=lines[-1].number if len(found) > len(lines) else None)


@router.get("/audit/head", summary="The last row's number and seal", openapi_extra=allowed("ADMIN"))
async def audit_head(request: Request, connection: Reading) -> AuditHead:
    """Write it down where nobody who may write to the database may."""
    found = await head(connection, request.app.state.schema)
    return AuditHead(number=None, seal=None) if found is None else AuditHead(number=found[0], seal=found[1])
