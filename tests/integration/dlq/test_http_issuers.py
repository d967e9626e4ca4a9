"""Keys from an issuer's address: taken as they are there, and from nowhere else."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from surefoot.audit.keys import Key, KeysAway, KeySource, key_source
from surefoot.audit.settings import AccessSettings
from surefoot.http.server import HttpService
from tests.support.dlq.token_issuer import AUDIENCE, ISSUER, rsa_issuer
from tests.support.waiting import eventually

KEYS = json.dumps({"keys": [rsa_issuer().jwk]}).encode()


async def keys(_: Request) -> Response:
    return Response(KEYS, media_type="application/json")


async def moved(_: Request) -> Response:
    return RedirectResponse("/keys")


async def large(_: Request) -> Response:
    return Response(KEYS.ljust(2 * 1024 * 1024))


async def broken(_: Request) -> Response:
    return Response(KEYS, 500)


@pytest.fixture
async def issuer_at() -> AsyncIterator[str]:
    app = Starlette(routes=[Route(f"/{each.__name__}", each) for each in (keys, moved, large, broken)])
    with socket.create_server(("127.0.0.1", 0)) as listener:
        service = HttpService(app, listener)
        task = asyncio.create_task(service.run())

        async def started() -> bool:
            return service.has_started

        await eventually(started, what="the issuer has started")
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        service.stop()
        await task


def source(jwks: str, **changed: Any) -> KeySource:
    made = key_source(AccessSettings(jwt_jwks=jwks, jwt_audience=AUDIENCE, jwt_issuer=ISSUER, **changed))
    assert made is not None
    return made


async def test_keys_are_taken_from_the_issuers_address(issuer_at: str) -> None:
    found = source(f"{issuer_at}/keys")
    assert isinstance(await found.find("k1"), Key)
    assert await found.find("k2") is None


@pytest.mark.parametrize("path", ["moved", "large", "broken", "nothing"])
async def test_an_answer_that_is_no_key_set_of_this_address_gives_no_keys(issuer_at: str, path: str) -> None:
    with pytest.raises(KeysAway):
        await source(f"{issuer_at}/{path}").find("k1")
