"""An HTTP service keeps an idle connection longer than its clients do, so that no request is lost on its way."""

import asyncio
import socket

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from surefoot.http.server import KEEP_ALIVE_S, HttpService

pytestmark = pytest.mark.slow
REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
USUAL_S = 60
"""How long load balancers keep an idle connection."""


async def test_a_connection_that_was_idle_for_longer_than_uvicorns_own_limit_is_still_served() -> None:
    async def hello(_: object) -> PlainTextResponse:
        return PlainTextResponse("hello")

    listener = socket.create_server(("127.0.0.1", 0))
    started = asyncio.Event()
    service = HttpService(Starlette(routes=[Route("/", hello)]), listener, when_started=started.set)
    running = asyncio.create_task(service.run())
    await started.wait()
    reader, writer = await asyncio.open_connection(*listener.getsockname())
    for idle_s in (5.5, 0):
        writer.write(REQUEST)
        await writer.drain()
        answer = await reader.readuntil(b"hello")
        assert answer.startswith(b"HTTP/1.1 200")
        await asyncio.sleep(idle_s)
    writer.close()
    service.stop()
    await running
    assert KEEP_ALIVE_S > USUAL_S
