"""What the operations of the admin service share: who may use them, what they are asked with, how they read.

An operation declares the least role that may use it, or it cannot be registered. The role is checked before anything
of the request's body is looked at. It is in the OpenAPI document as `x-role`, so that a reader of the document knows
who may do what, and a test can try all of it. Each read is one transaction that cannot write, and that ends when it
takes too long.
"""

from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Annotated, Any, get_args
from uuid import UUID

from fastapi import Depends, Request, Response
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from surefoot.audit.people import Person, Role
from surefoot.audit.record import Action
from surefoot.database.connection import Connection, Pool
from surefoot.dlq.jobs.approvals import Approvals
from surefoot.dlq.jobs.jobs import Jobs
from surefoot.dlq.jobs.request import MAX_REASON
from surefoot.dlq.letters.looking import MOST, Looking
from surefoot.errors import ConfigurationError, SurefootError
from surefoot.http.middleware import NOT_JSON, says_json

PREFIX = "/admin/dlq"
OPEN = "none"
"""The `x-role` of what is open to everybody."""
STATEMENT_TIMEOUT_S = 10
READ_ONLY = f"""SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY;
    SET LOCAL statement_timeout = '{STATEMENT_TIMEOUT_S}s'"""


class WrongRole(SurefootError):
    def __init__(self, person: Person, needed: Role) -> None:
        super().__init__(f"{person.name} is {person.role} here, and this needs {needed}: ask somebody who is.")


class NotJson(SurefootError):
    def __init__(self) -> None:
        super().__init__(NOT_JSON)


class SaidTwice(SurefootError):
    def __init__(self, name: str) -> None:
        super().__init__(f"{name[:200]} is said more than once: which one is meant? Say it once.")


def allowed(role: Role, action: Action | None = None) -> dict[str, Any]:
    """For `openapi_extra`: who may, and what it is called in the audit log."""
    return {"x-role": role} if action is None else {"x-role": role, "x-action": action}


def open_to_all() -> dict[str, Any]:
    return {"x-role": OPEN}


class Operation(APIRoute):
    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        extra = options.get("openapi_extra") or {}
        said = extra.get("x-role")
        if said not in (*get_args(Role), OPEN):
            raise ConfigurationError(
                f"{path} declares no role that may use it, and what nobody may use is not served: "
                'give it openapi_extra=allowed("VIEWER"), or another role.'
            )
        self.role: Role | None = None if said == OPEN else said
        self.action: Action | None = extra.get("x-action")
        super().__init__(path, endpoint, **options)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def guarded(request: Request) -> Response:
            if self.role is not None:
                person: Person = request.state.person
                if not person.may(self.role):
                    raise WrongRole(person, self.role)
            if request.method == "POST" and not says_json(request):
                raise NotJson
            _check_said_once(request)
            return await handle(request)

        return guarded


def _check_said_once(request: Request) -> None:
    """Of two values the last would win, and the first be passed over without a word."""
    seen: set[str] = set()
    for name, _ in request.query_params.multi_items():
        if name in seen:
            raise SaidTwice(name)
        seen.add(name)


Why = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=MAX_REASON),
    Field(description="Why, in a sentence that others will understand later."),
]
Limit = Annotated[int, Field(ge=1, le=MOST, description="Most rows on the page.")]


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Reason(Body):
    reason: Why


class AskedPage(BaseModel):
    model_config = ConfigDict(extra="forbid")

    after: UUID | None = Field(None, description="Behind this one: `next` of the page before.")
    limit: Limit = 50


class AskedRows(BaseModel):
    """A page of what is numbered."""

    model_config = ConfigDict(extra="forbid")

    after: int | None = Field(None, ge=0, lt=2**31, description="Behind this number: `next` of the page before.")
    limit: Limit = 100


async def _reading(request: Request) -> AsyncIterator[Connection]:
    pool: Pool = request.app.state.pool
    async with pool.acquire() as connection, connection.transaction():
        await connection.execute(READ_ONLY)
        yield connection


Reading = Annotated[Connection, Depends(_reading, scope="function")]


async def _looking(request: Request, connection: Reading) -> Looking:
    return Looking(connection, request.app.state.schema)


async def _jobs(request: Request, connection: Reading) -> Jobs:
    return Jobs(connection, request.app.state.schema, request.app.state.settings)


async def _approvals(request: Request, connection: Reading) -> Approvals:
    return Approvals(connection, request.app.state.schema, request.app.state.settings)


Look = Annotated[Looking, Depends(_looking, scope="function")]
LookAtJobs = Annotated[Jobs, Depends(_jobs, scope="function")]
LookAtApprovals = Annotated[Approvals, Depends(_approvals, scope="function")]
