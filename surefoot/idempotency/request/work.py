"""What one request is worked on with: what it shares with the others of its process, what the app answered, and the
work that makes the answer durable before it is sent."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import Scope

from surefoot.idempotency.http.problems import Problems
from surefoot.idempotency.request.waiting import Absence, Flight, Flights
from surefoot.idempotency.settings import IdempotencySettings
from surefoot.idempotency.store import Store
from surefoot.idempotency.upkeep.alerts import MismatchWatch
from surefoot.idempotency.values import Answer, Claim, StoredRequest
from surefoot.telemetry.alerts import Alerts

TenantOf = Callable[[Request], str | Awaitable[str]]
"""Who asks. Called when the handler starts, so the app's authentication has spoken; what it raises is passed on."""
SCOPE_KEY = "surefoot.idempotency"
"""Where a request that is made again by us has its `Resumed`."""


@dataclass(frozen=True, slots=True)
class Layer:
    """What requests share in one process. The middleware puts it together, once."""

    store: Store
    settings: IdempotencySettings
    problems: Problems
    tenant_of: TenantOf
    flights: Flights
    alerts: Alerts
    mismatches: MismatchWatch
    absence: Absence
    request_headers: frozenset[str]
    """Of a request, what is stored for making it again."""


@dataclass(frozen=True, slots=True)
class Response:
    """What the app answered, whole."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes
    is_too_large: bool = False
    """Its body was larger than may be kept, and is not here."""


class Work(Protocol):
    """Whoever holds a claim, or a transaction, until the answer is there."""

    async def answered(self, response: Response) -> Answer | None:
        """Make it durable. None: the response may go out; otherwise this goes out in its place."""

    async def broke(self, error: BaseException) -> Answer | None:
        """The app raised. None: the error goes on to whoever answers for it."""


class Interrupted(HTTPException):
    """Ends a handler whose answer the layer gives. An HTTPException, because frameworks take those for granted."""


def is_ours(error: BaseException) -> bool:
    """Whether this is the end that the layer put to a handler, also where a framework has wrapped it."""
    if isinstance(error, BaseExceptionGroup):
        return all(is_ours(inner) for inner in error.exceptions)
    return isinstance(error, Interrupted) or isinstance(error.__cause__, Interrupted)


@dataclass(slots=True)
class Resumed:
    """A request that is made again by us, with the claim that was taken over for it."""

    claim: Claim
    request: StoredRequest
    flight: Flight | None = None
    """Set when the handler is reached: until then, the claim is still with whoever makes the request."""


def resumed_tenant(scope: Scope) -> str | None:
    """Whose request this is, if it is one that the layer makes again by itself; None for one that came from outside.

    For the app's authentication, which finds no credentials in such a request: they are not stored."""
    resumed = scope.get(SCOPE_KEY)
    return resumed.request.tenant if isinstance(resumed, Resumed) else None
