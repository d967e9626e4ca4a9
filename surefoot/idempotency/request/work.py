"""What the parts of the layer share in one process, put together once by the middleware."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from starlette.requests import Request

from surefoot.idempotency.http.problems import Problems
from surefoot.idempotency.request.waiting import Absence, Flights
from surefoot.idempotency.settings import IdempotencySettings
from surefoot.idempotency.store import Store
from surefoot.idempotency.upkeep.alerts import MismatchWatch
from surefoot.telemetry.alerts import Alerts

TenantOf = Callable[[Request], str | Awaitable[str]]
"""Who asks. Called when the handler starts, so the app's authentication has spoken; what it raises is passed on."""


@dataclass(frozen=True, slots=True)
class Layer:
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
