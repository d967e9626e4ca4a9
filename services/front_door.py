"""What the shop's HTTP front doors share: errors as problem+json (RFC 9457) with a sentence, and a database.

There is no authentication: these are reference services for the shop's own back end. They listen on the loopback
address unless told otherwise, and belong behind whatever guards your own services. The payments API, which has a door
of its own, answers with the same problems in words of its own.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any
from weakref import WeakSet

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from sqlalchemy import Connection, ExceptionContext, event
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine
from starlette.exceptions import HTTPException

from services.settings import Service, ServiceSettings
from surefoot.consumer.failures import causes, sqlstate_of
from surefoot.database.connection import is_outage
from surefoot.database.engine import create_engine
from surefoot.errors import InvalidEvent, words_of
from surefoot.http.middleware import BodyLimit, too_large
from surefoot.http.problems import (
    LONGEST_NAME,
    MOST_TOLD,
    Make,
    Problem,
    answer_with_problems,
    http_error,
    message_of,
)

MOST_BYTES = 256 * 1024
"""The largest wish that fits, 200 lines whose articles have long names in escaped Unicode, has less than 180 KiB."""
TOO_LARGE = too_large(MOST_BYTES)
DATA_EXCEPTION = "22"
"""The class of SQLSTATEs for values that Postgres cannot take."""
CONTENDED = ("40001", "40P01", "55P03", "57014")
"""A conflict, a deadlock, a lock not had in time, a statement that took too long: it may well go the next time."""


@dataclass(frozen=True, slots=True)
class Sentences:
    """What an app of the shop says where it cannot do what is asked."""

    cannot_be_stored: str
    database_away: str
    failed: str
    contended: str | None = None
    """None: it counts as failed."""
    http: Mapping[int, str] = field(default_factory=dict)
    """What the framework refuses, by status."""


SENTENCES = Sentences(
    cannot_be_stored="The request has a text or number that cannot be stored (a NUL character, perhaps): remove it.",
    database_away="The database does not answer. Nothing was changed by this request; try again in a while.",
    failed="Something went wrong here, and nothing was changed by this request. Try again; the service's log has the "
    "details.",
)


def front_door(service: Service, title: str, settings: ServiceSettings) -> tuple[FastAPI, AsyncEngine]:
    """An app without routes, and the service's database, which is left when the app ends."""
    url = settings.database_of(service)
    engine = create_engine(
        url, name=f"surefoot {service}", pool_size=10, hide_parameters=True
    )  # addresses do not belong into a log
    _tell_unanswered_commits(engine)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await engine.dispose()

    app = FastAPI(title=title, lifespan=lifespan, redoc_url=None)
    limit_bodies(app)
    answer_with_problems(app, shop_problems(SENTENCES, structlog.get_logger("surefoot.front_door")))
    return app, engine


def limit_bodies(app: FastAPI) -> None:
    refusal = Problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too_large", TOO_LARGE).response()
    app.add_middleware(BodyLimit, refusal=refusal, most_bytes=MOST_BYTES)


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


def shop_problems(sentences: Sentences, log: Any) -> dict[type[Exception], Make]:
    """What the errors of an app are answered with. Details are in the log, where the server writes them, and nowhere
    else."""

    def failed(_: Request, error: Exception) -> Problem:
        return Problem(HTTPStatus.INTERNAL_SERVER_ERROR, "failed", sentences.failed)

    def database(request: Request, error: Exception) -> Problem:
        sqlstate = sqlstate_of(error)
        if sqlstate.startswith(DATA_EXCEPTION):
            return Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "does_not_fit", sentences.cannot_be_stored)
        *_, deepest = causes(error)
        if is_outage(deepest):
            unavailable = HTTPStatus.SERVICE_UNAVAILABLE
            return Problem(unavailable, "database_away", sentences.database_away, retry_after_s=2)
        if sentences.contended is not None and sqlstate in CONTENDED:
            return Problem(HTTPStatus.SERVICE_UNAVAILABLE, "contended", sentences.contended, retry_after_s=1)
        log.error("a request failed", path=request.url.path, error=words_of(error))
        return failed(request, error)

    return {
        RequestValidationError: _does_not_fit,
        InvalidEvent: _invalid,
        HTTPException: http_error(sentences.http, otherwise="{detail}."),
        DBAPIError: database,
        OSError: database,  # a connection that is refused is no DBAPIError
        Exception: failed,
    }


def _does_not_fit(_: Request, error: RequestValidationError) -> Problem:
    """The first few, and nothing of what was sent is quoted."""
    found = [{"where": _where(one["loc"]), "what": message_of(one)} for one in error.errors()[:MOST_TOLD]]
    first = f"{found[0]['where']}: {found[0]['what']}" if found else "it cannot be read"
    sentence = f"The request does not fit: {first}."
    return Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "does_not_fit", sentence, problems=found)


def _invalid(_: Request, error: InvalidEvent) -> Problem:
    """Money as a float, a control character: what could not be published cannot be asked for."""
    return Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "does_not_fit", str(error))


def _where(location: Sequence[object]) -> str:
    return ".".join(str(part) for part in location if part != "body")[:LONGEST_NAME] or "body"
