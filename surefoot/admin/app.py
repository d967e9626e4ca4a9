"""The admin service as an HTTP app. Deny by default: what declares no role is not served, and needs a token anyway.

Open to everybody is only whether the service is well.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal

from fastapi import APIRouter, FastAPI
from pydantic import Field
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from surefoot.admin import audit_routes, job_routes, letter_routes
from surefoot.admin.auth import SECURITY, Authentication, FewAMinute, Refusals
from surefoot.admin.operation import PREFIX, Operation, Reading, allowed, open_to_all
from surefoot.admin.problems import READ_PROBLEMS, answer_refusals
from surefoot.audit.access import Access
from surefoot.database.connection import create_pool
from surefoot.database.schema import checked_schema
from surefoot.dlq.letters.views import View
from surefoot.dlq.settings import DlqSettings
from surefoot.errors import ConfigurationError
from surefoot.events import Catalogue
from surefoot.http.middleware import BodyLimit, require_bearer, too_large
from surefoot.http.problems import Problem, described

MOST_BYTES = 1024 * 1024
CONNECTIONS = 10
health = APIRouter(prefix=PREFIX, route_class=Operation, tags=["health"])


class Health(View):
    status: Literal["ok"] = Field(description="ok")


@health.get(
    "/healthz",
    summary="Whether it can answer",
    responses=described({503: "The database does not answer."}),
    openapi_extra=open_to_all(),
)
async def healthz(request: Request, connection: Reading) -> Health:
    """200 if the database answers and has the dead letters' tables; else 503."""
    await connection.fetchrow(f"SELECT 1 FROM {request.app.state.schema}.dlq_groups LIMIT 1")
    return Health(status="ok")


@health.get(
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


ROUTERS: tuple[APIRouter, ...] = (
    letter_routes.router,
    job_routes.router,
    job_routes.discards,
    audit_routes.router,
    health,
)


def api(url: str, schema: str, settings: DlqSettings, access: Access, catalogue: Catalogue) -> FastAPI:
    """The application. Its connections are opened when it starts and closed when it ends."""
    schema = checked_schema(schema)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        pool = app.state.pool = await create_pool(
            url, name="surefoot dlq api", size=CONNECTIONS, idle_transaction_timeout=settings.transaction_timeout
        )
        app.state.refusals = Refusals(pool, schema, FewAMinute(access.settings.refusals_recorded_per_minute))
        try:
            yield
        finally:
            await pool.close()

    app = FastAPI(
        title="Surefoot dead letters",
        summary="Understand, replay and close what consumers gave up on.",
        version="1",
        lifespan=lifespan,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.schema, app.state.settings, app.state.catalogue = schema, settings, catalogue
    for router in ROUTERS:
        app.router.routes.extend(router.routes)
    _check(app)
    app.add_middleware(BodyLimit, refusal=_too_much(app), most_bytes=MOST_BYTES)
    public = frozenset(route.path for route in app.routes if isinstance(route, Operation) and route.role is None)
    authenticate = Authentication(url, schema, access, app.state)
    require_bearer(app, authenticate, public.__contains__, SECURITY)
    answer_refusals(app, url)
    return app


def _too_much(app: FastAPI) -> ASGIApp:
    async def refuse(scope: Scope, receive: Receive, send: Send) -> None:
        refusals: Refusals = app.state.refusals
        refused = await refusals.refuse(Request(scope), Problem(413, "too_large", too_large(MOST_BYTES)))
        await refused(scope, receive, send)

    return refuse


def _check(app: FastAPI) -> None:
    for route in app.routes:
        if not isinstance(route, Operation):
            raise ConfigurationError(f"{route} is no operation with a role that may use it: it is not served.")
