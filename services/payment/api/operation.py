"""What the operations of the API share: a body that says it is JSON, what the OpenAPI document says of keys, and errors
as application/problem+json with a sentence, and a word for programs in `reason`.

What the idempotency layer answers itself (a key that is missing, in flight, used for something else) is its own.
"""

from collections.abc import Callable, Coroutine, Mapping
from http import HTTPStatus
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, Field

from services.front_door import Sentences
from surefoot.http import problems
from surefoot.http.middleware import NOT_JSON, says_json
from surefoot.http.problems import Problem

SENTENCES = Sentences(
    cannot_be_stored="The request has a text or number that cannot be stored: look at what is in it.",
    database_away="The database does not answer. Ask again in a while, with the same Idempotency-Key if it is a write.",
    failed="Something went wrong here. Ask again, with the same Idempotency-Key if it is a write: it takes effect "
    "once. The service's log has the details.",
    contended="Too many others change the same at once. Ask again, with the same Idempotency-Key if it is a write.",
    http={
        400: "The body cannot be read: it is no JSON in UTF-8.",
        404: "There is nothing at {path}.",
        405: "{method} is not possible here.",
    },
)
KEY_HEADER: dict[str, Any] = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": True,
    "description": "A name of your own for this one request, the same on every retry, never for another one: a random "
    "UUID, plain or in double quotes. With the same key and body it takes effect once, and you get the same answer "
    "again, with `X-Idempotency-Replayed: true`, for 24 hours.",
    "schema": {"type": "string", "minLength": 16, "maxLength": 255, "pattern": "^[!#-\\[\\]-~]{16,255}$"},
    "example": "5f0c1b0e-6a55-4a0e-9d3c-0f6b1c7e2a11",
}


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
    return problems.described(sentences, ProblemTold)


READ_PROBLEMS = described(
    {
        401: "Nobody is known by this API key, or there is none.",
        422: "A parameter cannot be used.",
        503: "The database does not answer.",
    }
)
ONE_PROBLEMS = described({404: "There is no such thing, or it is another tenant's."})
WRITE_PROBLEMS = described(
    {
        400: "The Idempotency-Key is missing, or cannot be one; or the body cannot be read.",
        401: "Nobody is known by this API key, or there is none.",
        409: "It cannot be done as things stand; or the same request is being worked on (Retry-After).",
        410: "The key was used more than 24 hours ago: its answer is kept no longer.",
        413: "The body is too large.",
        415: "The body is not JSON.",
        422: "The body does not fit; or the key was used for another request.",
        503: "A database or the provider is away: ask again with the same key (Retry-After).",
    }
)
OPEN_PROBLEMS = READ_PROBLEMS | described(
    {
        400: "The body cannot be read.",
        409: "The account is there already, in another currency.",
        413: "The body is too large.",
        415: "The body is not JSON.",
    }
)
OUTSIDE_PROBLEMS = described(
    {
        402: "The provider declined. No money was taken.",
        504: "The provider was asked, and what it did is not known yet: ask again with the same key (Retry-After).",
    }
)


def with_key() -> dict[str, Any]:
    """For `openapi_extra` of what needs a key."""
    return {"parameters": [KEY_HEADER]}


class JsonRoute(APIRoute):
    """Refuses a body that does not say that it is JSON, before it is read."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def guarded(request: Request) -> Response:
            if request.method in ("POST", "PUT") and not says_json(request):
                raise Problem(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "not_json", NOT_JSON)
            return await handle(request)

        return guarded
