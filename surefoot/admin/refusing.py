"""A request that is refused: told in a sentence, and recorded if it tried to change, see or enter what it may not.

Who looks for something that is not there has made a mistake, and not an attempt: reads are recorded only where it is
about access. Strangers and floods are recorded a few at a time, and counted: nobody fills the audit log from outside.
"""

import structlog
from starlette.requests import Request
from starlette.responses import Response

from surefoot.admin.limits import FewAMinute
from surefoot.admin.metrics import REFUSALS, UNRECORDED
from surefoot.admin.operation import Operation
from surefoot.audit.access import ANONYMOUS
from surefoot.audit.people import Person
from surefoot.audit.record import Act, Action, record
from surefoot.database.connection import DRIVER_ERRORS, Pool
from surefoot.errors import SurefootError, words_of
from surefoot.http.problems import problem

log = structlog.get_logger("surefoot.dlq.http")
READS = ("GET", "HEAD")
ABOUT_ACCESS = (401, 403, 405, 413, 415, 429)


class Refusals:
    def __init__(self, pool: Pool, schema: str, few: FewAMinute) -> None:
        self._pool = pool
        self._schema = schema
        self._few = few

    async def refuse(
        self,
        request: Request,
        status: int,
        sentence: str,
        *,
        reason: str = "request",
        headers: dict[str, str] | None = None,
        sparingly: bool = False,
    ) -> Response:
        """`reason` is a word for the metric and the audit log. `sparingly`: it can come in floods."""
        REFUSALS.labels(str(status), reason).inc()
        if is_recorded(request, status):
            person: Person | None = getattr(request.state, "person", None)
            name = ANONYMOUS if person is None else person.name
            address = "" if request.client is None else request.client.host
            if (sparingly or person is None) and not self._few.allows(f"{name} {address}"):
                UNRECORDED.inc()
            else:
                details = {
                    "status": status,
                    "reason": reason,
                    "role": None if person is None else person.role,
                    "request": f"{request.method} {request.url.path}"[:300],
                    "address": address,
                }
                action = action_of(request, status)
                await self._record(Act(name, action, "refused", about(request), sentence, details))
        return problem(status, sentence, headers)

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
