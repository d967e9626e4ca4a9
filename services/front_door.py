"""What the services' HTTP front doors share: errors as problem+json (RFC 9457) with a sentence, and a database.

There is no authentication: these are reference services for the shop's own back end. They listen on the loopback
address unless told otherwise, and belong behind whatever guards your own services.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any
from weakref import WeakSet

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from sqlalchemy import Connection, ExceptionContext, event
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from starlette.exceptions import HTTPException

from services.body_limit import MOST_BYTES, TOO_LARGE
from services.settings import Service, ServiceSettings
from surefoot.consumer.failures import causes, sqlstate_of
from surefoot.database.connection import is_outage, sqlalchemy_url
from surefoot.errors import InvalidEvent, words_of
from surefoot.http.middleware import BodyLimit

log = structlog.get_logger("surefoot.front_door")
PROBLEM = "application/problem+json"
DATA_EXCEPTION = "22"
"""The class of SQLSTATEs for values that Postgres cannot take."""


class Problem(Exception):
    """Answered as problem+json."""

    def __init__(self, status: HTTPStatus, reason: str, sentence: str, *, retry_after_s: int | None = None) -> None:
        super().__init__(sentence)
        self.status = status
        self.reason = reason
        self.sentence = sentence
        self.headers = {} if retry_after_s is None else {"Retry-After": str(retry_after_s)}


def front_door(service: Service, title: str, settings: ServiceSettings) -> tuple[FastAPI, AsyncEngine]:
    """An app without routes, and the service's database, which is left when the app ends."""
    url = sqlalchemy_url(settings.database_of(service))
    engine = create_async_engine(url, pool_size=10, hide_parameters=True)  # addresses do not belong into a log
    _tell_unanswered_commits(engine)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await engine.dispose()

    app = FastAPI(title=title, lifespan=lifespan, redoc_url=None)
    refusal = _answer(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too_large", TOO_LARGE)
    app.add_middleware(BodyLimit, refusal=refusal, most_bytes=MOST_BYTES)
    app.add_exception_handler(Problem, _tell_problem)
    app.add_exception_handler(RequestValidationError, _tell_what_does_not_fit)
    app.add_exception_handler(InvalidEvent, _tell_invalid)
    app.add_exception_handler(HTTPException, _tell_http_error)
    for error in (DBAPIError, OSError):  # a connection that is refused is no DBAPIError
        app.add_exception_handler(error, _tell_database_error)
    app.add_exception_handler(Exception, _tell_failure)
    return app, engine


def _tell_unanswered_commits(engine: AsyncEngine) -> None:
    """Where the database goes away during the COMMIT itself, nobody knows whether it was one: that is to be said."""
    committing: WeakSet[Connection] = WeakSet()
    event.listen(engine.sync_engine, "commit", committing.add)
    event.listen(engine.sync_engine, "begin", committing.discard)
    event.listen(engine.sync_engine, "rollback", committing.discard)

    @event.listens_for(engine.sync_engine, "handle_error")
    def unanswered(context: ExceptionContext) -> None:
        *_, deepest = causes(context.original_exception)
        if context.connection in committing and is_outage(deepest):
            raise Problem(
                HTTPStatus.SERVICE_UNAVAILABLE,
                "maybe_done",
                "The database went away while this request was being committed: it may have been done, or not. Look "
                "before you ask for it again.",
            )


async def _tell_problem(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, Problem)
    return _answer(error.status, error.reason, error.sentence, headers=error.headers)


async def _tell_what_does_not_fit(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    found = [{"where": _where(one["loc"]), "what": str(one["msg"])} for one in error.errors()]
    first = f"{found[0]['where']}: {found[0]['what']}" if found else "it cannot be read"
    return _answer(
        HTTPStatus.UNPROCESSABLE_ENTITY, "does_not_fit", f"The request does not fit: {first}.", problems=found
    )


async def _tell_invalid(_: Request, error: Exception) -> JSONResponse:
    """Money as a float, a control character: what could not be published cannot be asked for."""
    return _answer(HTTPStatus.UNPROCESSABLE_ENTITY, "does_not_fit", str(error))


async def _tell_database_error(request: Request, error: Exception) -> JSONResponse:
    if sqlstate_of(error).startswith(DATA_EXCEPTION):
        sentence = "The request has a text or number that cannot be stored (a NUL character, perhaps): remove it."
        return _answer(HTTPStatus.UNPROCESSABLE_ENTITY, "does_not_fit", sentence)
    *_, deepest = causes(error)
    if is_outage(deepest):
        sentence = "The database does not answer. Nothing was changed by this request; try again in a while."
        return _answer(HTTPStatus.SERVICE_UNAVAILABLE, "database_away", sentence, headers={"Retry-After": "2"})
    log.error("a request failed", path=request.url.path, error=words_of(error))
    return await _tell_failure(request, error)


async def _tell_http_error(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    return _answer(HTTPStatus(error.status_code), "http", f"{error.detail}.")


async def _tell_failure(_: Request, error: Exception) -> JSONResponse:
    """The details are in the log, where the server writes them: they are nobody else's business."""
    return _answer(
        HTTPStatus.INTERNAL_SERVER_ERROR,
        "failed",
        "Something went wrong here, and nothing was changed by this request. Try again; the service's log has the "
        "details.",
    )


def _answer(
    status: HTTPStatus, reason: str, sentence: str, *, headers: dict[str, str] | None = None, **more: Any
) -> JSONResponse:
    body = {"type": "about:blank", "title": status.phrase, "status": status.value, "detail": sentence, "reason": reason}
    return JSONResponse({**body, **more}, status.value, headers, PROBLEM)


def _where(location: Sequence[object]) -> str:
    return ".".join(str(part) for part in location if part != "body") or "body"
