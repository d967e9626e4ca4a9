"""Every error of the payments API as application/problem+json with a sentence, and a word for programs in `reason`.

What the idempotency layer answers itself (a key that is missing, in flight, used for something else) is its own.
"""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy.exc import DBAPIError
from starlette.exceptions import HTTPException
from starlette.routing import Match, Route

from surefoot.consumer.failures import causes, sqlstate_of
from surefoot.database.connection import is_outage
from surefoot.errors import InvalidEvent, words_of

log = structlog.get_logger("surefoot.payments_api")
MEDIA_TYPE = "application/problem+json"
DATA_EXCEPTION = "22"
"""The class of SQLSTATEs for values that Postgres cannot take."""
CONTENDED = ("40001", "40P01", "55P03", "57014")
"""A conflict, a deadlock, a lock not had in time, a statement that took too long: it may well go the next time."""
MOST_TOLD = 5


class Problem(Exception):
    """Raised by the work, answered as problem+json. `more` are further members of the answer."""

    def __init__(
        self, status: HTTPStatus, reason: str, sentence: str, *, retry_after_s: int | None = None, **more: Any
    ) -> None:
        super().__init__(sentence)
        self.status = status
        self.reason = reason
        self.sentence = sentence
        self.more = more
        self.headers = {} if retry_after_s is None else {"Retry-After": str(retry_after_s)}


class ProblemTold(BaseModel):
    """As the document describes it."""

    model_config = ConfigDict(title="Problem", extra="allow")

    type: str = Field(description="A page that explains it; about:blank: the title says all.")
    title: str
    status: int
    detail: str = Field(description="A sentence: what is wrong, and what to do.")
    reason: str | None = Field(None, description="A word for programs.")


def described(sentences: Mapping[int, str]) -> dict[int | str, dict[str, Any]]:
    """The problems of an operation, as its OpenAPI description has them."""
    schema = ProblemTold.model_json_schema()
    return {
        code: {"description": text, "content": {MEDIA_TYPE: {"schema": schema}}} for code, text in sentences.items()
    }


def answer(
    status: HTTPStatus, reason: str, sentence: str, *, headers: Mapping[str, str] | None = None, **more: Any
) -> JSONResponse:
    body = {"type": "about:blank", "title": status.phrase, "status": status.value, "detail": sentence, "reason": reason}
    return JSONResponse({**body, **more}, status.value, dict(headers or {}), MEDIA_TYPE)


def answer_with_problems(app: FastAPI) -> None:
    app.add_exception_handler(Problem, _problem)
    app.add_exception_handler(RequestValidationError, _does_not_fit)
    app.add_exception_handler(InvalidEvent, _invalid)
    app.add_exception_handler(HTTPException, _http)
    for error in (DBAPIError, OSError):  # a connection that is refused is no DBAPIError
        app.add_exception_handler(error, _database)
    app.add_exception_handler(Exception, _broken)


async def _problem(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, Problem)
    return answer(error.status, error.reason, error.sentence, headers=error.headers, **error.more)


async def _does_not_fit(_: Request, error: Exception) -> JSONResponse:
    """The first few, and nothing of what was sent is quoted."""
    assert isinstance(error, RequestValidationError)
    found = [{"where": _where(one["loc"]), "what": _what(one)} for one in error.errors()[:MOST_TOLD]]
    first = f"{found[0]['where']}: {found[0]['what']}" if found else "it cannot be read"
    sentence = f"The request does not fit: {first}."
    return answer(HTTPStatus.UNPROCESSABLE_ENTITY, "does_not_fit", sentence, problems=found)


async def _invalid(_: Request, error: Exception) -> JSONResponse:
    """Money as a float: what could not be published cannot be asked for."""
    return answer(HTTPStatus.UNPROCESSABLE_ENTITY, "does_not_fit", str(error))


async def _http(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    said = {
        400: "The body cannot be read: it is no JSON in UTF-8.",
        404: f"There is nothing at {request.url.path}.",
        405: f"{request.method} is not possible here.",
    }
    sentence = said.get(error.status_code, f"{error.detail}.")
    headers = dict(error.headers or {})
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        headers["Allow"] = ", ".join(sorted(_methods(request)))  # the framework names those of one route alone
    return answer(HTTPStatus(error.status_code), "http", sentence, headers=headers)


def _methods(request: Request) -> set[str]:
    """All that can be done at this path."""
    app: FastAPI = request.app
    return {
        method
        for route in app.routes
        if isinstance(route, Route) and route.matches(request.scope)[0] is not Match.NONE
        for method in route.methods or ()
    }


async def _database(request: Request, error: Exception) -> JSONResponse:
    if sqlstate_of(error).startswith(DATA_EXCEPTION):
        sentence = "The request has a text or number that cannot be stored: look at what is in it."
        return answer(HTTPStatus.UNPROCESSABLE_ENTITY, "does_not_fit", sentence)
    *_, deepest = causes(error)
    if is_outage(deepest):
        sentence = "The database does not answer. Ask again in a while, with the same Idempotency-Key if it is a write."
        return answer(HTTPStatus.SERVICE_UNAVAILABLE, "database_away", sentence, headers={"Retry-After": "2"})
    if sqlstate_of(error) in CONTENDED:
        sentence = "Too many others change the same at once. Ask again, with the same Idempotency-Key if it is a write."
        return answer(HTTPStatus.SERVICE_UNAVAILABLE, "contended", sentence, headers={"Retry-After": "1"})
    log.error("a request failed", path=request.url.path, error=words_of(error))
    return await _broken(request, error)


async def _broken(_: Request, error: Exception) -> JSONResponse:
    """The details are in the log, where the server writes them: they are nobody else's business."""
    sentence = (
        "Something went wrong here. Ask again, with the same Idempotency-Key if it is a write: it takes effect once. "
        "The service's log has the details."
    )
    return answer(HTTPStatus.INTERNAL_SERVER_ERROR, "failed", sentence)


def _where(location: Sequence[object]) -> str:
    return ".".join(str(part) for part in location if part != "body")[:200] or "body"


def _what(error: Mapping[str, Any]) -> str:
    return str(error["msg"]).removeprefix("Value error, ")
