"""Errors as application/problem+json (RFC 9457), each with a sentence. Every HTTP app of ours answers with these.

    answer_with_problems(app, {NoSuchSaga: told(404), HTTPException: http_error({404: "There is nothing at {path}."})})

An exception becomes the problem that the function of its nearest kind makes of it. Then the app's `answer` writes it:
with its reason for programs, without, or after a record of it.
"""

from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any, Self

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Match, Route

MEDIA_TYPE = "application/problem+json"
MOST_TOLD = 5
"""Errors of one request that are told: a list of ten thousand wrong ids is one mistake."""
LONGEST_NAME = 200


class Problem(Exception):
    """What went wrong: raised by the work, or made of another exception. `reason` is a word for programs, `more` are
    further members of the answer."""

    def __init__(
        self,
        status: int,
        reason: str,
        sentence: str,
        *,
        retry_after_s: int | None = None,
        **more: Any,
    ) -> None:
        super().__init__(sentence)
        self.status = int(status)
        self.reason = reason
        self.sentence = sentence
        self.headers = {} if retry_after_s is None else {"Retry-After": str(retry_after_s)}
        self.more = more

    def with_headers(self, headers: Mapping[str, str] | None) -> Self:
        self.headers.update(headers or {})
        return self

    def response(self) -> JSONResponse:
        return problem(self.status, self.sentence, self.headers, reason=self.reason, **self.more)


def problem(status: int, detail: str, headers: Mapping[str, str] | None = None, **members: Any) -> JSONResponse:
    body = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status, "detail": detail, **members}
    return JSONResponse(body, status, dict(headers or {}), MEDIA_TYPE)


class ProblemDescribed(BaseModel):
    """What went wrong."""

    model_config = ConfigDict(title="Problem")

    type: str = Field("about:blank", description="Nothing more is known of it than its title.")
    title: str
    status: int
    detail: str = Field(description="A sentence: what is wrong, and what to do.")


def described(
    sentences: Mapping[int, str], model: type[BaseModel] = ProblemDescribed
) -> dict[int | str, dict[str, Any]]:
    """The problems of an operation, as its OpenAPI description has them."""
    return {
        code: {"description": text, "content": {MEDIA_TYPE: {"schema": model.model_json_schema()}}}
        for code, text in sentences.items()
    }


Make = Callable[[Request, Any], Problem]
Answer = Callable[[Request, Problem], Awaitable[Response]]


async def with_reason(_: Request, made: Problem) -> Response:
    return made.response()


async def without_reason(_: Request, made: Problem) -> Response:
    return problem(made.status, made.sentence, made.headers)


def answer_with_problems(app: FastAPI, table: Mapping[type[Exception], Make], answer: Answer = with_reason) -> None:
    """Answer these kinds of exceptions, and `Problem` itself. `Exception` is answered outside of all middleware, and
    then raised again, for the server's log."""
    app.add_exception_handler(Problem, _handler(_itself, answer))
    for kind, make in table.items():
        app.add_exception_handler(kind, _handler(make, answer))


def _handler(make: Make, answer: Answer) -> Callable[[Request, Exception], Awaitable[Response]]:
    async def handle(request: Request, error: Exception) -> Response:
        return await answer(request, make(request, error))

    return handle


def _itself(_: Request, error: Problem) -> Problem:
    return error


def told(status: int, *, retry_after_s: int | None = None) -> Make:
    """The error's own sentence; the reason is the name of its kind."""

    def make(_: Request, error: Exception) -> Problem:
        return Problem(status, type(error).__name__, str(error), retry_after_s=retry_after_s)

    return make


def http_error(sentences: Mapping[int, str], *, otherwise: str = "{detail}") -> Make:
    """What the framework refuses, by status. `{path}`, `{method}` and the framework's own `{detail}` are filled in."""

    def make(request: Request, error: HTTPException) -> Problem:
        sentence = sentences.get(error.status_code, otherwise)
        headers = dict(error.headers or {})
        if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
            headers["Allow"] = ", ".join(sorted(_methods(request)))  # the framework names those of one route alone
        filled = sentence.format(path=request.url.path, method=request.method, detail=error.detail)
        return Problem(error.status_code, "http", filled).with_headers(headers)

    return make


def _methods(request: Request) -> set[str]:
    """All that can be done at this path."""
    app: FastAPI = request.app
    return {
        method
        for route in app.routes
        if isinstance(route, Route) and route.matches(request.scope)[0] is not Match.NONE
        for method in route.methods or ()
    }


def invalid_parameters(*, unknown: str = "{name} is not a parameter of this.") -> Make:
    """What does not fit the operation's parameters or body: the first few. Nothing of what was sent is quoted."""

    def make(_: Request, error: RequestValidationError) -> Problem:
        found = error.errors()
        sentences = []
        for one in found[:MOST_TOLD]:
            name = ".".join(str(part) for part in one["loc"][1:])[:LONGEST_NAME] or "The request"
            if one["type"] == "extra_forbidden":
                sentences.append(unknown.format(name=name))
            else:
                sentences.append(f"{name} cannot be used: {message_of(one)}.")
        if len(found) > MOST_TOLD:
            sentences.append(f"And {len(found) - MOST_TOLD} more like this.")
        return Problem(422, "does_not_fit", " ".join(sentences))

    return make


def message_of(error: Mapping[str, Any]) -> str:
    """Of one of the errors that pydantic found in a request."""
    return str(error["msg"]).removeprefix("Value error, ")
