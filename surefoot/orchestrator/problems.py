"""Errors of the read API, as problems, each with a sentence."""

from uuid import UUID

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from surefoot.database.connection import DRIVER_ERRORS, explain, is_outage
from surefoot.errors import SurefootError
from surefoot.http.problems import described, problem, sentence_of

log = structlog.get_logger("surefoot.orchestrator")
PROBLEMS = described(
    {
        404: "There is no such saga.",
        422: "A parameter cannot be used.",
        503: "The database does not answer.",
    }
)


class NoSuchSaga(SurefootError):
    def __init__(self, saga_id: UUID) -> None:
        super().__init__(f"There is no saga {saga_id}: look at the id. Those that ended long ago are removed.")


def answer_with_problems(app: FastAPI, url: str) -> None:
    @app.exception_handler(NoSuchSaga)
    async def no_such_saga(_: Request, error: NoSuchSaga) -> JSONResponse:
        return problem(404, str(error))

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        return problem(422, " ".join(map(sentence_of, error.errors())))

    @app.exception_handler(HTTPException)
    async def refused(request: Request, error: HTTPException) -> JSONResponse:
        said = {
            404: f"There is nothing at {request.url.path}: what there is, is listed at /docs.",
            405: f"{request.method} is not possible here: this API only reads, with GET.",
        }
        return problem(error.status_code, said.get(error.status_code, str(error.detail)), error.headers)

    async def database(_: Request, error: Exception) -> JSONResponse:
        ours = error if isinstance(error, SurefootError) else explain(error, url)
        log.warning("the read API has no answer from its database", error=str(ours))
        return problem(503, str(ours), {"Retry-After": "1"} if is_outage(error) else None)

    async def broken(_: Request, error: Exception) -> JSONResponse:
        # It is raised again behind this answer, and logged by the server with its traceback.
        return problem(500, f"The read API itself is broken here ({type(error).__name__}): its log says where.")

    app.add_exception_handler(Exception, broken)
    for kind in DRIVER_ERRORS:
        app.add_exception_handler(kind, database)
    app.add_exception_handler(SurefootError, database)
