"""Every error of the admin service as application/problem+json with a sentence, and every refusal recorded."""

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
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
from surefoot.dlq.letters.pages import BadCursor
from surefoot.errors import SurefootError
from surefoot.http.problems import (
    Make,
    Problem,
    answer_with_problems,
    described,
    http_error,
    invalid_parameters,
    told,
    without_reason,
)

log = structlog.get_logger("surefoot.dlq.http")

DECLINED: dict[type[Exception], Make] = {
    WrongRole: told(403),
    NotAllowed: told(403),
    OwnApproval: told(403),
    NoSuchLetter: told(404),
    NoSuchJob: told(404),
    NoSuchApproval: told(404),
    Declined: told(409),
    InFlight: told(409, retry_after_s=1),
    NotJson: told(415),
    BadCursor: told(422),
    BadKey: told(422),
    InvalidEdit: told(422),
    InvalidRequest: told(422),
    KeyReused: told(422),
    SaidTwice: told(422),
    TooMany: told(422),
    TooManyJobs: told(429, retry_after_s=10),
}
"""By the nearest of its kinds: what is declined and not named here conflicts with how things stand."""

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


def answer_refusals(app: FastAPI, url: str) -> None:
    async def answer(request: Request, made: Problem) -> Response:
        if made.status >= 500:  # our fault, and no refusal
            return await without_reason(request, made)
        refusals: Refusals = app.state.refusals
        return await refusals.refuse(request, made)

    def database(request: Request, error: Exception) -> Problem:
        ours = error if isinstance(error, SurefootError) else explain(error, url)
        log.warning("the admin service has no answer from its database", error=str(ours))
        # Where the database is, is told to those who are known.
        sentence = str(ours) if hasattr(request.state, "person") else "The database does not answer: the log says more."
        return Problem(503, "database", sentence, retry_after_s=1 if is_outage(error) else None)

    def broken(_: Request, error: Exception) -> Problem:
        sentence = f"The admin service itself is broken here ({type(error).__name__}): its log says where."
        return Problem(500, "broken", sentence).with_headers(SECURITY)

    refused = {
        400: "The body cannot be read as JSON.",
        404: "There is nothing at {path}.",
        405: "{method} is not possible here.",
    }
    table = {
        **DECLINED,
        RequestValidationError: invalid_parameters(),
        HTTPException: http_error(refused),
        SurefootError: database,
        **dict.fromkeys(DRIVER_ERRORS, database),
        Exception: broken,
    }
    answer_with_problems(app, table, answer)
