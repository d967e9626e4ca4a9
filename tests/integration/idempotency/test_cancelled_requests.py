"""A server that cancels its requests, or is shut down, stops no work: the answer is kept, and waits for the retry."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from surefoot.idempotency import Store
from tests.support.idempotency.http_harness import new_key
from tests.support.idempotency.reference_app import app_settings, make_app, open_works
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("path", ["/local", "/outside"])
async def test_a_server_that_cancels_its_requests_does_not_cancel_the_work(database_url: str, path: str) -> None:
    """As some servers do when a client leaves, or when they are to end."""
    settings = app_settings()
    async with open_works(database_url) as works, Store(database_url, settings) as store:
        app = make_app(store, settings, works)
        key = new_key()
        serving = asyncio.create_task(app(_scope(path, key), _body(key, delay_ms=200), _nowhere))

        async def has_begun() -> bool:
            return (await works.counted(key))["runs"] == 1

        await eventually(has_begun, what="the work begins")
        serving.cancel()
        with suppress(asyncio.CancelledError):
            await serving

        async def is_done() -> bool:
            return (await works.counted(key))["effects"] == 1

        await eventually(is_done, what="the work goes on to its end")
        answer: list[Any] = []
        await app(_scope(path, key), _body(key, delay_ms=200), _collect(answer))
        assert answer[0]["status"] == 201
        assert (b"x-idempotency-replayed", b"true") in answer[0]["headers"]


async def test_who_shuts_down_waits_for_what_is_under_way(database_url: str) -> None:
    """The app's lifespan ends, and closes what it has opened, when the last request is over."""
    settings = app_settings()
    async with open_works(database_url) as works, Store(database_url, settings) as store:
        app = make_app(store, settings, works)
        stages: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        told: asyncio.Queue[Any] = asyncio.Queue()
        lifespan = asyncio.create_task(app({"type": "lifespan", "asgi": {"version": "3.0"}}, stages.get, told.put))
        await stages.put({"type": "lifespan.startup"})
        assert (await told.get())["type"] == "lifespan.startup.complete"
        key = new_key()
        serving = asyncio.create_task(app(_scope("/local", key), _body(key, delay_ms=300), _nowhere))

        async def has_begun() -> bool:
            return (await works.counted(key))["runs"] == 1

        await eventually(has_begun, what="the work begins")
        serving.cancel()
        await stages.put({"type": "lifespan.shutdown"})
        assert (await told.get())["type"] == "lifespan.shutdown.complete"
        await lifespan
        assert await works.counted(key) == {"runs": 1, "effects": 1}
        with suppress(asyncio.CancelledError):
            await serving


def _scope(path: str, key: str) -> dict[str, Any]:
    headers = {"content-type": "application/json", "authorization": "Bearer one", "idempotency-key": key}
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "client": None,
        "server": None,
    }


def _body(mark: str, *, delay_ms: int) -> Any:
    unsent = [f'{{"mark": "{mark}", "amount": 1, "delay_ms": {delay_ms}}}'.encode()]

    async def receive() -> dict[str, Any]:
        if unsent:
            return {"type": "http.request", "body": unsent.pop(), "more_body": False}
        return {"type": "http.disconnect"}  # it has left long ago

    return receive


async def _nowhere(message: Any) -> None:
    """The client does not listen."""


def _collect(messages: list[Any]) -> Any:
    async def send(message: Any) -> None:
        messages.append(message)

    return send
