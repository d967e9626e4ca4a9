"""The client and the layer together, over a network that loses answers: one effect, and the bytes of the first."""

import asyncio
from datetime import timedelta
from typing import Any

import httpx
import pytest

from surefoot.client import Client, Patience
from tests.support.idempotency.http_harness import Ground, ground
from tests.support.idempotency.provider import Charged
from tests.support.idempotency.reference_app import Provider


class LosesAnswers(httpx.AsyncBaseTransport):
    """Every request gets there; so many answers do not come back."""

    def __init__(self, lost: int) -> None:
        self._wire = httpx.AsyncHTTPTransport()
        self._left = lost
        self.came: list[bytes] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await self._wire.handle_async_request(request)
        self.came.append(await response.aread())
        if self._left > 0:
            self._left -= 1
            raise httpx.ReadError("The answer was lost.", request=request)
        return httpx.Response(response.status_code, headers=response.headers, content=self.came[-1])

    async def aclose(self) -> None:
        await self._wire.aclose()


class Waits:
    """A provider that answers once it may."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider
        self.may = asyncio.Event()

    async def charge(self, mark: str, amount: float, manner: str, *, key: str) -> Charged:
        await self.may.wait()
        return await self._provider.charge(mark, amount, manner, key=key)

    async def count(self, mark: str) -> int:
        return await self._provider.count(mark)


def client_of(there: Ground, *, lost: int = 0, **more: Any) -> tuple[Client, LosesAnswers]:
    network = LosesAnswers(lost)
    patience = Patience(base=timedelta(milliseconds=1), longest=timedelta(milliseconds=20))
    headers = {"Authorization": "Bearer one"}
    client = Client(str(there.client.base_url), headers=headers, patience=patience, transport=network, **more)
    return client, network


@pytest.mark.parametrize("path", ["/local", "/outside"])
async def test_an_answer_that_was_lost_twice_is_replayed_and_nothing_happens_again(
    database_url: str, path: str
) -> None:
    async with ground(database_url) as there:
        client, network = client_of(there, lost=2)
        async with client:
            answer = await client.post(path, json={"amount": 100, "mark": "lost"})

        assert (answer.status, answer.replayed, answer.attempts) == (201, True, 3)
        assert network.came == [answer.body] * 3
        assert await there.works.counted("lost") == {"runs": 1, "effects": 1}


async def test_the_same_call_from_two_places_ends_with_the_same_bytes(database_url: str) -> None:
    async with ground(database_url, wait_in_flight="PT0S") as there:
        provider = there.works.provider = Waits(there.works.provider)
        slept: list[float] = []

        async def sleep(seconds: float) -> None:
            slept.append(seconds)
            provider.may.set()
            await first

        client, other = client_of(there)[0], client_of(there, sleep=sleep)[0]
        body = {"amount": 100, "mark": "twice"}
        async with client, other:
            first = asyncio.create_task(client.post("/outside", key="a-key-for-both-of-them", json=body))
            await there.begun("twice")
            two = await other.post("/outside", key="a-key-for-both-of-them", json=body)
            one = await first

        assert (one.status, one.replayed, two.status, two.replayed) == (201, False, 201, True)
        assert one.body == two.body
        assert two.attempts == 2
        assert slept[0] >= 1, "what the layer asks for in Retry-After"
        assert await there.works.counted("twice") == {"runs": 1, "effects": 1}
