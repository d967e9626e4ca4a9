"""Every error of the admin service as application/problem+json with a sentence, and every refusal recorded."""

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.responses import Response

from surefoot.admin.auth import SECURITY, Refusals
from surefoot.admin.idempotency import BadKey, InFlight, KeyReused
from surefoot.admin.operation import NotJson, SaidTwice, WrongRole
from surefoot.database.connection import DRIVER_ERRORS, explain, is_outage
from surefoot.dlq.errors import (
    Declined,
    InvalidEdit,
    InvalidRequest,
    NoSuchApproval,
    NoSuchJob,
    NoSuchLetter,
    NotAllowed,
    OwnApproval,
    TooMany,
    TooManyJobs,
)
from surefoot.dlq.letters.cursors import BadCursor
from surefoot.errors import SurefootError
from surefoot.http.problems import described, problem

log = structlog.get_logger("surefoot.dlq.http")

STATUS: dict[type[SurefootError], int] = {
    WrongRole: 403,
    NotAllowed: 403,
    OwnApproval: 403,
    NoSuchLetter: 404,
    NoSuchJob: 404,
    NoSuchApproval: 404,
    Declined: 409,
    InFlight: 409,
    NotJson: 415,
    BadCursor: 422,
    BadKey: 422,
    InvalidEdit: 422,
    InvalidRequest: 422,
    KeyReused: 422,
    SaidTwice: 422,
    TooMany: 422,
    TooManyJobs: 429,
}
"""By the nearest of its kinds: what is declined and not named here conflicts with how things stand."""
RETRY_AFTER_S = {InFlight: 1, TooManyJobs: 10}

READ_PROBLEMS = described(
    {
        401: "Nobody is known by this token, or there is none.",
        403: "The person's role does not allow it.",
        422: "A parameter cannot be used.",
        429: "The person asks too often, or has too many jobs under way.",
        503: "The database does not answer.",
    }
)
ONE_PROBLEMS = described({404: "There is no such thing."})
WRITE_PROBLEMS = described(
    {
        400: "The body cannot be read.",
        409: "It cannot be done as things stand; or the same request is being worked on.",
        413: "The body is too large.",
        415: "The body is not JSON.",
    }
)


def answer_with_problems(app: FastAPI, url: str) -> None:
    def refusals() -> Refusals:
        found: Refusals = app.state.refusals
        return found

    async def declined(request: Request, error: Exception) -> Response:
        kind = next((each for each in type(error).__mro__ if each in STATUS), None)
        if kind is None:
            return await database(request, error)
        wait_s = next((RETRY_AFTER_S[each] for each in type(error).__mro__ if each in RETRY_AFTER_S), None)
        headers = None if wait_s is None else {"Retry-After": str(wait_s)}
        reason = type(error).__name__
        return await refusals().refuse(request, STATUS[kind], str(error), reason=reason, headers=headers)

    async def invalid(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        return await refusals().refuse(request, 422, sentences_of(error), reason="does_not_fit")

    async def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        said = {
            400: "The body cannot be read as JSON.",
            404: f"There is nothing at {request.url.path}.",
            405: f"{request.method} is not possible here.",
        }
        sentence = said.get(error.status_code, str(error.detail))
        headers = None if error.headers is None else dict(error.headers)
        return await refusals().refuse(request, error.status_code, sentence, reason="http", headers=headers)

    async def database(request: Request, error: Exception) -> JSONResponse:
        ours = error if isinstance(error, SurefootError) else explain(error, url)
        log.warning("the admin service has no answer from its database", error=str(ours))
        # Where the database is, is told to those who are known.
        told = str(ours) if hasattr(request.state, "person") else "The database does not answer: the log says more."
        return problem(503, told, {"Retry-After": "1"} if is_outage(error) else None)

    async def broken(_: Request, error: Exception) -> JSONResponse:
        # It is raised again behind this answer, and logged by the server with its traceback.
        told = f"The admin service itself is broken here ({type(error).__name__}): its log says where."
        return problem(500, told, SECURITY)

    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, refused)
    app.add_exception_handler(SurefootError, declined)
    for kind in DRIVER_ERRORS:
        app.add_exception_handler(kind, database)
    app.add_exception_handler(Exception, broken)


MOST_TOLD = 5


def sentences_of(error: RequestValidationError) -> str:
    """The first few: a list of ten thousand wrong ids is one mistake. What was sent is not quoted."""
    found = error.errors()
    told = []
    for one in found[:MOST_TOLD]:
        name = ".".join(str(part) for part in one["loc"][1:])[:200] or "The request"
        if one["type"] == "extra_forbidden":
            told.append(f"{name} is not a parameter of this.")
        else:
            told.append(f"{name} cannot be used: {str(one['msg']).removeprefix('Value error, ')}.")
    more = len(found) - len(told)
    return " ".join(told) + (f" And {more} more like this." if more > 0 else "")
