"""`@idempotent(…)`: a handler whose requests take effect once."""

import functools
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, TypeVar, cast

from starlette.applications import Starlette
from starlette.responses import Response
from starlette.types import Scope

from surefoot.errors import ConfigurationError
from surefoot.idempotency.http.admission import admit
from surefoot.idempotency.http.middleware import current
from surefoot.idempotency.http.signature import annotations, handler_signature
from surefoot.idempotency.request.work import Interrupted
from surefoot.idempotency.settings import KeyMode, OnFailure, Route
from surefoot.idempotency.values import Effect, FenceLost, OutcomeUnknown, ProviderBusy, StoreAway

T = TypeVar("T")

_UNFINISHED = (OutcomeUnknown, ProviderBusy, FenceLost, StoreAway)
"""What ends a handler, and is answered by the layer."""


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
                given = await admit(exchange.layer, exchange, route, name, wants_hands=parameter is not None)
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
