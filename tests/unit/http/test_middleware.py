"""What stands before an app: who is let in, and what every answer carries."""

import httpx
import pytest
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from surefoot.http.middleware import BearerAuth, Refusal, bearer_token
from tests.support.corpus import each_of

HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


async def inside(scope: Scope, receive: Receive, send: Send) -> None:
    who = scope.get("state", {}).get("who")
    await PlainTextResponse(f"hello {who}", headers={"Cache-Control": "max-age=60"})(scope, receive, send)


async def authenticate(scope: Scope) -> ASGIApp | None:
    if scope["path"] == "/refused":
        return PlainTextResponse("go away", 401)
    scope.setdefault("state", {})["who"] = "Ada"
    return None


def guarded(app: ASGIApp = inside) -> BearerAuth:
    return BearerAuth(app, authenticate, {"/public"}.__contains__, HEADERS)


@pytest.mark.parametrize(
    ("path", "status", "text", "cached"),
    [
        ("/", 200, "hello Ada", "max-age=60"),
        ("/public", 200, "hello None", "max-age=60"),
        ("/refused", 401, "go away", "no-store"),
    ],
)
async def test_only_who_is_known_comes_to_the_app(path: str, status: int, text: str, cached: str) -> None:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(guarded()), base_url="http://test") as client:
        answer = await client.get(path)
    assert (answer.status_code, answer.text) == (status, text)
    assert (answer.headers["cache-control"], answer.headers["x-content-type-options"]) == (cached, "nosniff")


async def test_a_websocket_is_closed_and_never_comes_to_the_app() -> None:
    sent: list[Message] = []

    async def unused(scope: Scope, receive: Receive, send: Send) -> None:
        raise AssertionError

    async def receive() -> Message:
        return {"type": "websocket.connect"}

    async def send(message: Message) -> None:
        sent.append(message)

    await guarded(unused)({"type": "websocket", "path": "/public"}, receive, send)
    assert sent == [{"type": "websocket.close", "code": 1008}]


@each_of(
    ("said", "reason"),
    [
        (None, "no_token"),
        ("  ", "no_token"),
        ("Bearer", "not_a_token"),
        ("Basic abc", "not_a_token"),
        ("Bearer " + "x" * 11, "not_a_token"),
        ("Bearer ü", "not_a_token"),
    ],
)
def test_a_header_without_a_usable_token_is_refused_without_quoting_it(said: str | None, reason: str) -> None:
    refused = bearer_token(said, called="token", longest=10)
    assert isinstance(refused, Refusal)
    assert refused.reason == reason
    assert refused.sentence.endswith("Authorization: Bearer <token>.")


def test_a_token_is_found_behind_bearer_in_any_case() -> None:
    assert bearer_token(" bEARER  abc ", called="token", longest=10) == "abc"
