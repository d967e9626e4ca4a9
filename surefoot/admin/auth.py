"""Who may come in, and how often; and what becomes of a request that is refused.

Nothing of a request is looked at before it is known who asks. What is open (whether the service is well) needs no
token, and everything else does, also what is not there.

A refused request is told so in a sentence, and recorded if it tried to change, see or enter what it may not. To look
for something that is not there is a mistake, and not an attempt: reads are recorded only where it is about access.
Strangers and floods are recorded a few at a time, and counted: the audit log cannot be filled from outside.
"""

import math
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import structlog
from prometheus_client import Counter
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Scope

from surefoot.admin.operation import Operation
from surefoot.audit.access import ANONYMOUS, Access
from surefoot.audit.people import Person
from surefoot.audit.record import Act, Action, record
from surefoot.database.connection import DRIVER_ERRORS, Pool, explain, is_outage
from surefoot.errors import SurefootError, words_of
from surefoot.http.middleware import Refusal, said_authorization
from surefoot.http.problems import Problem, problem, without_reason

log = structlog.get_logger("surefoot.dlq.http")
SECURITY = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
}
"""With every answer: it is data, for whoever asked, and not to be kept, guessed at, framed or run."""
REFUSALS = Counter("surefoot_dlq_api_refusals_total", "Requests that were refused.", ["status", "reason"])
UNRECORDED = Counter(
    "surefoot_dlq_api_refusals_unrecorded_total",
    "Refusals that the audit log does not have one by one: too many at a time, or the database was away.",
)
READS = ("GET", "HEAD")
ABOUT_ACCESS = (401, 403, 405, 413, 415, 429)


MOST_NAMES = 10_000
"""Those not seen for longest are forgotten first: they begin again with a full bucket."""


@dataclass(slots=True)
class _Bucket:
    left: float
    looked_at: float


class Buckets:
    """A token bucket for each name: `at_once` requests, then `per_second` of them."""

    def __init__(self, per_second: float, at_once: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_second = per_second
        self._at_once = at_once
        self._clock = clock
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def take(self, name: str) -> int:
        """0 if there was one left, else after how many seconds to ask again."""
        now = self._clock()
        bucket = self._buckets.setdefault(name, _Bucket(self._at_once, now))
        self._buckets.move_to_end(name)
        if len(self._buckets) > MOST_NAMES:
            self._buckets.popitem(last=False)
        bucket.left = min(self._at_once, bucket.left + (now - bucket.looked_at) * self._per_second)
        bucket.looked_at = now
        if bucket.left < 1:
            return max(1, math.ceil((1 - bucket.left) / self._per_second))
        bucket.left -= 1
        return 0


class FewAMinute:
    """So many a minute for each name, and ten times as many for all names together: addresses are cheap."""

    def __init__(self, each: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._each = Buckets(each / 60, each, clock=clock)
        self._all = Buckets(each * 10 / 60, each * 10, clock=clock)

    def allows(self, name: str) -> bool:
        return self._each.take(name) == 0 and self._all.take("") == 0


class Refusals:
    def __init__(self, pool: Pool, schema: str, few: FewAMinute) -> None:
        self._pool = pool
        self._schema = schema
        self._few = few

    async def refuse(self, request: Request, made: Problem, *, sparingly: bool = False) -> Response:
        """The problem's reason is a word for the metric and the audit log. `sparingly`: it can come in floods."""
        REFUSALS.labels(str(made.status), made.reason).inc()
        if is_recorded(request, made.status):
            person: Person | None = getattr(request.state, "person", None)
            name = ANONYMOUS if person is None else person.name
            address = "" if request.client is None else request.client.host
            if (sparingly or person is None) and not self._few.allows(f"{name} {address}"):
                UNRECORDED.inc()
            else:
                details = {
                    "status": made.status,
                    "reason": made.reason,
                    "role": None if person is None else person.role,
                    "request": f"{request.method} {request.url.path}"[:300],
                    "address": address,
                }
                action = action_of(request, made.status)
                await self._record(Act(name, action, "refused", about(request), made.sentence, details))
        return await without_reason(request, made)

    async def _record(self, act: Act) -> None:
        try:
            async with self._pool.acquire() as connection, connection.transaction():
                await record(connection, self._schema, act)
        except (*DRIVER_ERRORS, SurefootError) as error:
            # It stays refused, whether or not that can be written down.
            UNRECORDED.inc()
            log.error("a refusal could not be recorded", action=act.action, person=act.person, error=words_of(error))


def is_recorded(request: Request, status: int) -> bool:
    if not 400 <= status < 500:
        return False
    operation = request.scope.get("route")
    wants = isinstance(operation, Operation) and operation.action is not None
    return request.method not in READS or status in ABOUT_ACCESS or wants


def action_of(request: Request, status: int) -> Action:
    operation = request.scope.get("route")
    if isinstance(operation, Operation) and operation.action is not None and status != 405:
        return operation.action
    return "access" if status in (401, 403) else "request"


def about(request: Request) -> str:
    """The event, job or approval in the path; else the route."""
    named = [str(value) for value in request.scope.get("path_params", {}).values()]
    return named[0] if named else f"{request.method} {request.url.path}"


class Authentication:
    """Finds out who asks, and whether they ask too often. `state` is the app's: it has the database from when the app
    has started."""

    def __init__(self, url: str, schema: str, access: Access, state: Any) -> None:
        self._url = url
        self._schema = schema
        self._access = access
        self._state = state
        limits = access.settings
        self._buckets = Buckets(limits.requests_per_second, limits.requests_at_once)

    async def __call__(self, scope: Scope) -> ASGIApp | None:
        request = Request(scope)
        try:
            who = await self._who(request)
        except (*DRIVER_ERRORS, SurefootError) as error:
            ours = error if isinstance(error, SurefootError) else explain(error, self._url)
            log.warning("who asks cannot be found out", error=str(ours))
            told = "It cannot be found out now who you are: the database does not answer. Try again in a while."
            return problem(503, told, {"Retry-After": "1"} if is_outage(error) else None)
        refusals: Refusals = self._state.refusals
        if isinstance(who, Refusal):
            return await _turned_away(refusals, request, who)
        request.state.person = who
        wait_s = self._buckets.take(who.name)
        if not wait_s:
            return None
        told = f"{who.name} asks more often than one person may: ask again in {wait_s} s."
        return await refusals.refuse(request, Problem(429, "rate", told, retry_after_s=wait_s), sparingly=True)

    async def _who(self, request: Request) -> Person | Refusal:
        said = said_authorization(request, is_open=self._access.is_open, service="service")
        if isinstance(said, Refusal):
            return said
        pool: Pool = self._state.pool
        return await self._access.who(said, pool, self._schema)


async def _turned_away(refusals: Refusals, request: Request, refusal: Refusal) -> ASGIApp:
    if refusal.reason == "keys_away":
        return problem(503, refusal.sentence, {"Retry-After": "5"})
    headers = {"WWW-Authenticate": 'Bearer realm="surefoot dlq"'}
    made = Problem(401, refusal.reason, refusal.sentence).with_headers(headers)
    return await refusals.refuse(request, made, sparingly=True)
