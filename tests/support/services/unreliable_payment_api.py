"""The payments API as a process of its own, on a network that brings every hundredth request to the provider twice.

With the argument `new-keys` it is weakened: each attempt asks the provider under a key of its own.
"""

import asyncio
import copy
import os
import socket
import sys
from uuid import uuid4

import httpx

from services.payment.api.app import Parts, PaymentsService
from services.payment.gateway import Barred, Charged, Declined
from services.payment.http_gateway import HttpGateway
from surefoot.cli.command import run
from surefoot.cli.process import serve
from surefoot.events import Money
from surefoot.http.listening import url_of
from surefoot.idempotency import IdempotencySettings, Store
from surefoot.telemetry.logging import set_up_logging
from tests.support.services.payment_api_harness import ACCESS

TWICE_EVERY = 100
NEW_KEYS = "new-keys"


class Doubling(httpx.AsyncBaseTransport):
    def __init__(self) -> None:
        self.doubled = 0
        self._network = httpx.AsyncHTTPTransport(limits=httpx.Limits(max_connections=256))
        self._sent = 0
        self._echoes: set[asyncio.Task[None]] = set()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self._sent += 1
        if self._sent % TWICE_EVERY == 1:
            self.doubled += 1
            echo = asyncio.create_task(self._again(copy.copy(request)))
            self._echoes.add(echo)
            echo.add_done_callback(self._echoes.discard)
        return await self._network.handle_async_request(request)

    async def _again(self, request: httpx.Request) -> None:
        try:
            answer = await self._network.handle_async_request(request)
            await answer.aread()
            await answer.aclose()
        except httpx.HTTPError:
            return  # nobody waits for it

    async def aclose(self) -> None:
        """Not with the first client that is closed: all of them share it."""


class NewKeys(HttpGateway):
    """Without the protection: nobody remembers the key that an earlier attempt asked under."""

    async def charge(self, key: str, order_id: str, amount: Money) -> Charged | Declined | Barred:
        return await super().charge(uuid4().hex, order_id, amount)


async def main(weakened: bool) -> None:
    set_up_logging("text")
    url, layer, network = os.environ["SUREFOOT_DATABASE"], IdempotencySettings(), Doubling()
    gateway = (NewKeys if weakened else HttpGateway)(transport=network)
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as listener:
        service = PaymentsService(Parts(url, Store(url, layer), layer, ACCESS, gateway), listener)
        sys.stdout.write(f"{url_of(listener)}\n")
        sys.stdout.flush()
        await serve(service)
    sys.stdout.write(f"{network.doubled}\n")


if __name__ == "__main__":
    run(main(NEW_KEYS in sys.argv))
