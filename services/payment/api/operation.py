"""What the operations of the API share: a body that says it is JSON, and what the OpenAPI document says of keys."""

from collections.abc import Callable, Coroutine
from http import HTTPStatus
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute

from services.payment.api.problems import Problem, described

JSON = "application/json"
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
            if request.method in ("POST", "PUT") and not _is_json(request):
                raise Problem(
                    HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
                    "not_json",
                    f"The body must be JSON, and say so: Content-Type: {JSON}.",
                )
            return await handle(request)

        return guarded


def _is_json(request: Request) -> bool:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower() == JSON
