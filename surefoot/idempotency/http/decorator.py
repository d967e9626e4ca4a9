"""`@idempotent(…)`: a handler whose requests take effect once.

When it is about to start, the key is read, the request is known by its fingerprint, and claimed. If it cannot be
claimed, its answer is given and the handler does not run.
"""

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, NoReturn, TypeVar, cast

import structlog
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from surefoot.errors import ConfigurationError
from surefoot.http.idempotency_key import KeyProblem, read_key
from surefoot.idempotency import metrics
from surefoot.idempotency.http.fingerprint import fingerprint, key_hash
from surefoot.idempotency.http.middleware import Exchange, current
from surefoot.idempotency.http.signature import annotations, handler_signature
from surefoot.idempotency.http.unprotected import without_key, without_store
from surefoot.idempotency.request.attempt import Attempt
from surefoot.idempotency.request.idempotent import Hands, Idempotent
from surefoot.idempotency.request.local_work import LocalHands, LocalWork
from surefoot.idempotency.request.outside_work import OutsideHands, OutsideWork
from surefoot.idempotency.request.waiting import Led
from surefoot.idempotency.request.work import Interrupted, Layer, Resumed
from surefoot.idempotency.settings import KeyMode, OnFailure, Route
from surefoot.idempotency.values import (
    Answer,
    Answered,
    Asked,
    Effect,
    FenceLost,
    Found,
    Gone,
    InFlight,
    Mismatch,
    OutcomeUnknown,
    ProviderBusy,
    StoreAway,
    StoredRequest,
)

log = structlog.get_logger("surefoot.idempotency")
T = TypeVar("T")
_UNFINISHED = (OutcomeUnknown, ProviderBusy, FenceLost, StoreAway)
"""What ends a handler, and is answered by the layer."""
LONGEST_TENANT = 255
LARGE_BODY = 64 * 1024
"""What is larger is read in a thread: a megabyte of small numbers takes a second, in which all others would wait."""


def idempotent(
    *,
    key: KeyMode = "required",
    effect: Effect = "local",
    on_failure: OnFailure = "rerun",
    replay_for: timedelta = timedelta(hours=24),
    gone_for: timedelta = timedelta(hours=24),
    attempts: int = 10,
    fail_open: bool = False,
) -> Callable[[Callable[..., Awaitable[T]]], Callable[..., Awaitable[T]]]:
    """See `Route` for what each of these says. The handler must be async, and answer in one piece."""
    route = Route(key, effect, on_failure, replay_for, gone_for, attempts, fail_open)

    def decorate(handler: Callable[..., Awaitable[T]]) -> Callable[..., Awaitable[T]]:
        signature, parameter = handler_signature(handler, route)

        @functools.wraps(handler)
        async def once(*args: Any, **kwargs: Any) -> T:
            exchange = current.get()
            if exchange is None:
                raise ConfigurationError(
                    f"{handler.__qualname__} is idempotent, and was asked without the Idempotency middleware (add it: "
                    "app.add_middleware(Idempotency, store=…, tenant=…)) or with GET or HEAD, which have no effect "
                    "that could happen twice."
                )
            if exchange.work is not None:
                raise ConfigurationError(
                    f"{handler.__qualname__} is idempotent, and was called by a handler that is idempotent itself, or "
                    "a second time for one request. Put what both of them do into a function without @idempotent."
                )
            name = _route_name(exchange.scope, handler)
            try:
                given = await admit(exchange, route, name, wants_hands=parameter is not None)
            except Interrupted as ended:
                if not isinstance(exchange.scope.get("app"), Starlette):
                    raise
                # Has been answered, and is dropped. It is returned where that can be done: what depends on the request
                # ends as it should then, and nobody's log has an error for every answer that is given again.
                return cast(T, Response(status_code=ended.status_code))
            if parameter is not None:
                kwargs[parameter] = given
            try:
                return await handler(*args, **kwargs)
            except _UNFINISHED as error:
                if exchange.work is None:
                    if not isinstance(error, StoreAway):
                        raise
                    await exchange.give(exchange.layer.problems.store_unavailable())
                # Quietly, as far as the framework is concerned: the layer answers.
                raise Interrupted(500) from error

        # Not by __wrapped__: whoever looks behind it would find the parameter that is ours.
        del once.__wrapped__
        once.__signature__ = signature  # type: ignore[attr-defined]
        once.__annotations__ = annotations(signature)
        return once

    return decorate


def _route_name(scope: Scope, handler: Callable[..., Any]) -> str:
    """As it was declared: POST /v1/charges/{id}. The handler's name where the framework does not say."""
    template = getattr(scope.get("route"), "path", None) or scope.get("path_template")
    return f"{scope['method']} {template or handler.__qualname__}"


async def admit(exchange: Exchange, route: Route, name: str, *, wants_hands: bool) -> Idempotent | None:
    """What the handler is given; Interrupted if it is not to run. None if it asks for nothing, and has no key."""
    layer = exchange.layer
    if exchange.resumed is not None:
        return _resume(exchange, exchange.resumed, route)
    key = None if route.key == "off" else await _key(exchange, route, name)
    tenant = await _tenant(exchange)
    if key is None:
        return await _unkeyed(exchange, route, name, tenant) if wants_hands else None
    body = await exchange.read_body()
    if body is None:
        await _give(exchange, layer.problems.body_too_large())
    if len(body) <= LARGE_BODY:
        asked = _asked(exchange, route, name, tenant, key, body)
    else:
        asked = await asyncio.to_thread(_asked, exchange, route, name, tenant, key, body)
    try:
        entered = await layer.flights.enter(asked, route)
    except StoreAway as error:
        if not route.fail_open:
            await _refuse(exchange, name, error)
        metrics.FAIL_OPEN.labels(name).inc()
        layer.absence.met(error)
        return without_store(layer, asked, error)
    layer.absence.over()
    if not isinstance(entered, Led):
        await _count(layer, asked, entered)
        await _give(exchange, layer.problems.found(entered))
    return _claimed(exchange, route, entered, body)


def _claimed(exchange: Exchange, route: Route, led: Led, body: bytes) -> Idempotent:
    claim = led.begun.claim
    metrics.CLAIMS.labels(claim.asked.route).inc()
    hands: Hands
    if route.effect == "local":
        exchange.work = LocalWork(exchange.layer, route, led)
        hands = LocalHands(led.begun.tx)
    else:
        request = _stored_request(exchange, claim.asked.tenant, body)
        attempt = Attempt(exchange.layer, route, claim, request, led.begun)
        exchange.work = OutsideWork(attempt, led.flight)
        hands = OutsideHands(attempt)
    return Idempotent(hands, tenant=claim.asked.tenant, attempt=claim.attempt, protected=True)


def _resume(exchange: Exchange, resumed: Resumed, route: Route) -> Idempotent:
    claim = resumed.claim
    resumed.flight = exchange.layer.flights.lead(claim.asked)
    attempt = Attempt(exchange.layer, route, claim, resumed.request)
    exchange.work = OutsideWork(attempt, resumed.flight)
    return Idempotent(OutsideHands(attempt), tenant=claim.asked.tenant, attempt=claim.attempt, protected=True)


async def _unkeyed(exchange: Exchange, route: Route, name: str, tenant: str) -> Idempotent:
    try:
        return await without_key(exchange, route, name, tenant)
    except StoreAway as error:
        await _refuse(exchange, name, error)


async def _refuse(exchange: Exchange, name: str, error: StoreAway) -> NoReturn:
    metrics.FAIL_CLOSED.labels(name).inc()
    exchange.layer.absence.met(error)
    await _give(exchange, exchange.layer.problems.store_unavailable())


async def _key(exchange: Exchange, route: Route, name: str) -> str | None:
    key = read_key(exchange.key_lines, exchange.layer.settings.strict_keys)
    if isinstance(key, KeyProblem):
        metrics.MALFORMED.labels(name).inc()
        await _give(exchange, exchange.layer.problems.malformed(key.sentence))
    if key is None:
        metrics.MISSING.labels(name, route.key).inc()
        if route.key == "required":
            await _give(exchange, exchange.layer.problems.missing())
    return key


async def _tenant(exchange: Exchange) -> str:
    found = exchange.layer.tenant_of(Request(exchange.scope))
    tenant = await found if inspect.isawaitable(found) else found
    if not isinstance(tenant, str) or not 1 <= len(tenant) <= LONGEST_TENANT or not tenant.isprintable():
        raise ConfigurationError(
            f"The tenant of a request is {tenant!r:.300}. The function given to Idempotency as tenant must return a "
            f"text of 1 to {LONGEST_TENANT} printable characters, and requests that belong to nobody must be refused "
            "before their handler starts."
        )
    return tenant


def _asked(exchange: Exchange, route: Route, name: str, tenant: str, key: str, body: bytes) -> Asked:
    found = fingerprint(
        method=exchange.scope["method"],
        path=exchange.path,
        query=exchange.query,
        tenant=tenant,
        content_type=exchange.header(b"content-type"),
        body=body,
    )
    return Asked(tenant, key_hash(tenant, key), name, route.effect, found.digest, found.version)


def _stored_request(exchange: Exchange, tenant: str, body: bytes) -> StoredRequest:
    headers = tuple(
        (name.decode("latin-1"), value.decode("latin-1"))
        for name, value in exchange.scope["headers"]
        if name.decode("latin-1") in exchange.layer.request_headers
    )
    # Without where the app is mounted: it is made again against the app itself.
    path = exchange.path.removeprefix(exchange.root_path)
    return StoredRequest(exchange.scope["method"], path, exchange.query, headers, body, tenant)


async def _count(layer: Layer, asked: Asked, found: Found) -> None:
    match found:
        case Answered():
            metrics.REPLAYS.labels(asked.route).inc()
        case InFlight():
            metrics.CONFLICTS.labels(asked.route).inc()
        case Gone():
            metrics.EXPIRED.labels(asked.route).inc()
        case Mismatch():
            await layer.mismatches.seen(asked.tenant)
            log.warning("a key was used for another request", tenant=asked.tenant, route=asked.route)


async def _give(exchange: Exchange, answer: Answer) -> NoReturn:
    await exchange.give(answer)
    raise Interrupted(answer.status)
