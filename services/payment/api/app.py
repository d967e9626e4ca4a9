"""The payments API: who asks is known at the door, writes take effect once, errors are problems.

From outside to inside the app is: the door, the bound on bodies, the idempotency layer, the routes. As one process it
is HTTP, the completer of abandoned requests, and housekeeping: if one ends, all do.
"""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import structlog
from fastapi import APIRouter, FastAPI
from fastapi.responses import JSONResponse
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine
from starlette.requests import Request

from services.front_door import limit_bodies, shop_problems
from services.payment.api.access import Access, authenticator, tenant_in
from services.payment.api.accounts import account_routes, transfer_routes
from services.payment.api.bookkeeping import book
from services.payment.api.charges import charge_routes
from services.payment.api.operation import SENTENCES
from services.payment.api.refunds import refund_routes
from services.payment.gateway import Gateway
from services.payment.settings import WebhookSettings
from services.payment.webhooks import webhook_router
from surefoot.database.engine import create_engine
from surefoot.http.middleware import require_bearer
from surefoot.http.problems import answer_with_problems
from surefoot.http.server import HttpService
from surefoot.idempotency import Completer, Housekeeping, Idempotency, IdempotencySettings, Store
from surefoot.service import Together
from surefoot.telemetry.alerts import Alerts

PUBLIC = ("/webhooks/", "/problems/", "/openapi.json", "/docs", "/healthz")
"""Beginnings of paths that need no API key: they guard themselves, or tell nothing of anybody."""
CONNECTIONS = 8
SECURITY = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}
"""With every answer that says nothing else of it: it is data, for the tenant that asked."""


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
    # For what only reads, and for webhooks. Parameters stay out of errors, and so out of the log.
    engine = create_engine(parts.url, name="surefoot payments", pool_size=CONNECTIONS, hide_parameters=True)

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
    answer_with_problems(app, shop_problems(SENTENCES, structlog.get_logger("surefoot.payments_api")))
    # The last one is the outermost.
    app.add_middleware(Idempotency, store=parts.store, tenant=_tenant, settings=parts.idempotency, alerts=parts.alerts)
    limit_bodies(app)
    require_bearer(app, authenticator(parts.access), _is_public, SECURITY, {"description": "An API key."})
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


def _is_public(path: str) -> bool:
    return path.startswith(PUBLIC)


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


class PaymentsService(Together):
    """Serves at a socket that listens already, until it is stopped: then requests under way are finished first."""

    def __init__(self, parts: Parts, listener: socket.socket) -> None:
        self._store = parts.store
        app = api(parts)
        self.http = HttpService(app, listener)
        super().__init__(
            self.http,
            Completer(app, parts.store, parts.idempotency, alerts=parts.alerts),
            Housekeeping(parts.store, parts.idempotency, alerts=parts.alerts),
        )

    @property
    def has_started(self) -> bool:
        return self.http.has_started

    async def run(self) -> None:
        async with self._store:
            await super().run()
