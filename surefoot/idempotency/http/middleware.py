"""`Idempotency`: the ASGI middleware. Any framework's app goes into it.

    app.add_middleware(Idempotency, store=store, tenant=tenant_of)

It claims nothing by itself: it lets the framework route, authenticate and validate, and gives idempotent handlers the
exchange they work in. What the framework refuses before that passes through and is never stored.
"""

import asyncio
from collections.abc import Collection
from datetime import timedelta

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from surefoot.errors import ConfigurationError
from surefoot.idempotency.http.exchange import Exchange, current
from surefoot.idempotency.http.problems import ProblemPages, Problems
from surefoot.idempotency.http.running import Running, report
from surefoot.idempotency.request.waiting import Absence, Flights
from surefoot.idempotency.request.work import Layer, TenantOf
from surefoot.idempotency.settings import IdempotencySettings
from surefoot.idempotency.store import Store
from surefoot.idempotency.upkeep.alerts import MismatchWatch
from surefoot.telemetry.alerts import Alerts

UNTOUCHED_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
REQUEST_HEADERS = frozenset({"accept", "accept-language", "content-encoding", "content-type", "host"})
"""Of a request with an outside effect, what is stored to make it again."""
CREDENTIALS = frozenset({"authorization", "cookie", "proxy-authorization", "x-api-key", "idempotency-key"})
UNHELD_EXTENSIONS = frozenset({"http.response.pathsend", "http.response.zerocopysend", "http.response.trailers"})
"""Ways of answering that pass us by. A server that has them is not believed so, for requests with a key."""


class Idempotency:
    """`tenant` says whose request it is (see `TenantOf`), `keep_headers` which headers a handler needs besides the
    usual ones when its request is made again (never credentials: see `resumed_tenant`)."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        store: Store,
        tenant: TenantOf,
        settings: IdempotencySettings | None = None,
        alerts: Alerts | None = None,
        running: Running | None = None,
        keep_headers: Collection[str] = (),
        drain_within: timedelta | None = None,
    ) -> None:
        settings = settings or IdempotencySettings()
        alerts = alerts or Alerts()
        self._app = app
        self._pages = ProblemPages(settings.docs)
        self.running = Running() if running is None else running
        self._drain_within = drain_within or settings.call_timeout
        self._layer = Layer(
            store=store,
            settings=settings,
            problems=Problems(settings),
            tenant_of=tenant,
            flights=Flights(store, settings),
            alerts=alerts,
            mismatches=MismatchWatch(alerts),
            absence=Absence(),
            request_headers=REQUEST_HEADERS | _without_credentials(keep_headers),
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, self._draining(receive), send)
        elif scope["type"] != "http":
            await self._app(scope, receive, send)
        elif scope["method"] in UNTOUCHED_METHODS:
            page = self._pages.find(scope)
            await (self._app if page is None else page)(scope, receive, send)
        else:
            await self._exchanged(Exchange(self._layer, scope, receive, send))

    async def _exchanged(self, exchange: Exchange) -> None:
        if not exchange.is_protected:
            await self._run(exchange)
            return
        _hold_answers(exchange.scope)
        task = self.running.start(self._run(exchange))
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            if not task.done():
                exchange.leave()
                task.add_done_callback(report)
            raise

    async def _run(self, exchange: Exchange) -> None:
        token = current.set(exchange)
        try:
            await self._app(exchange.scope, exchange.receive, exchange.send)
            exchange.ended()
        except BaseException as error:
            if not await exchange.broke(error):
                raise
        finally:
            current.reset(token)

    def _draining(self, receive: Receive) -> Receive:
        async def receive_drained() -> Message:
            message = await receive()
            if message["type"] == "lifespan.shutdown":  # the app is about to close what requests under way need
                await self.running.drained(self._drain_within)
            return message

        return receive_drained


def _hold_answers(scope: Scope) -> None:
    extensions = scope.get("extensions")
    if extensions and not UNHELD_EXTENSIONS.isdisjoint(extensions):
        scope["extensions"] = {name: value for name, value in extensions.items() if name not in UNHELD_EXTENSIONS}


def _without_credentials(names: Collection[str]) -> frozenset[str]:
    wanted = frozenset(name.lower() for name in names)
    if wanted & CREDENTIALS:
        raise ConfigurationError(
            f"{', '.join(sorted(wanted & CREDENTIALS))} cannot be kept with a request: credentials are not stored. Let "
            "the app's authentication ask resumed_tenant(scope) whose request is made again."
        )
    return wanted
