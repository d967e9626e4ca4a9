"""The payments API as an ASGI app: who asks is known at the door, writes take effect once, errors are problems.

From outside to inside: the door, the bound on bodies, the idempotency layer, the routes.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.responses import JSONResponse
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from starlette.requests import Request

from services.body_limit import MOST_BYTES, TOO_LARGE
from services.payment.api.access import Access
from services.payment.api.accounts import account_routes, transfer_routes
from services.payment.api.bookkeeping import book
from services.payment.api.charges import charge_routes
from services.payment.api.door import Door, tenant_in
from services.payment.api.problems import answer, answer_with_problems
from services.payment.api.refunds import refund_routes
from services.payment.gateway import Gateway
from services.payment.settings import WebhookSettings
from services.payment.webhooks import webhook_router
from surefoot.database.connection import sqlalchemy_url
from surefoot.http.body_limit import BodyLimit
from surefoot.idempotency import Idempotency, IdempotencySettings, Store, resumed_tenant
from surefoot.telemetry.alerts import Alerts

OPENED = ("/webhooks/", "/problems/", "/openapi.json", "/docs", "/healthz")
"""Beginnings of paths that need no API key: they guard themselves, or tell nothing of anybody."""
CONNECTIONS = 8


@dataclass(frozen=True, slots=True)
class Parts:
    """What the API is put together from."""

    url: str
    store: Store
    idempotency: IdempotencySettings
    access: Access
    gateway: Gateway
    webhooks: WebhookSettings | None = None
    """None: the provider sends none."""
    alerts: Alerts | None = None


def api(parts: Parts) -> FastAPI:
    """The application. The store is opened, and closed, by whoever runs it."""
    url = sqlalchemy_url(parts.url)
    # For what only reads, and for webhooks. Parameters stay out of errors, and so out of the log.
    engine = create_async_engine(url, pool_size=CONNECTIONS, hide_parameters=True)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await engine.dispose()

    app = FastAPI(
        title="Surefoot payments",
        summary="Charges, refunds and transfers that take effect once, however often they are sent.",
        version="1",
        lifespan=lifespan,
        redoc_url=None,
        redirect_slashes=False,
    )
    for router in _routers(parts, engine):
        app.router.routes.extend(router.routes)
    answer_with_problems(app)
    # The last one is the outermost.
    app.add_middleware(Idempotency, store=parts.store, tenant=_tenant, settings=parts.idempotency, alerts=parts.alerts)
    refusal = answer(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too_large", TOO_LARGE)
    app.add_middleware(BodyLimit, refusal=refusal, most_bytes=MOST_BYTES)
    app.add_middleware(Door, access=parts.access, opened=OPENED, resumed=resumed_tenant)
    _describe(app)
    return app


def _routers(parts: Parts, engine: AsyncEngine) -> list[APIRouter]:
    routers = [
        charge_routes(parts.gateway, engine),
        refund_routes(parts.gateway, engine),
        transfer_routes(),
        account_routes(engine),
        _health(engine),
    ]
    if parts.webhooks is not None:
        routers.append(webhook_router(engine, parts.webhooks, after=book))
    return routers


def _tenant(request: Request) -> str:
    return tenant_in(request.scope)


def _health(engine: AsyncEngine) -> APIRouter:
    router = APIRouter(tags=["health"])

    @router.get("/healthz", include_in_schema=False)
    async def well() -> JSONResponse:
        async with engine.connect() as connection:
            await connection.execute(text("SELECT 1"))
        return JSONResponse({"status": "well"})

    return router


def _describe(app: FastAPI) -> None:
    """In the document: whoever asks needs a bearer token, but for what guards itself."""
    written = app.openapi

    def described() -> dict[str, Any]:
        document = written()
        schemes = document.setdefault("components", {}).setdefault("securitySchemes", {})
        schemes["bearer"] = {"type": "http", "scheme": "bearer", "description": "An API key."}
        for path, operations in document["paths"].items():
            for operation in operations.values():
                operation["security"] = [] if path.startswith(OPENED) else [{"bearer": []}]
        return document

    app.openapi = described  # type: ignore[method-assign]
