"""The store is away: requests are refused, unless a route says that it may do without."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.cut import CutProxy
from tests.idempotency_provider import Charged
from tests.integration.idempotency.http_ground import REPLAYED, ground, new_key
from tests.integration.idempotency.scripted_provider import ScriptedProvider
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow

CLOSED = ["/local", "/outside", "/open-tx"]


@pytest.fixture
async def way(database_url: str) -> AsyncIterator[CutProxy]:
    """Between the layer and its database."""
    async with CutProxy(database_url) as way:
        yield way


@pytest.mark.parametrize("path", CLOSED)
async def test_without_the_store_nothing_is_begun_and_with_it_again_it_is(
    database_url: str, way: CutProxy, path: str
) -> None:
    async with ground(database_url, store_url=way.url) as there:
        key = new_key()
        way.cut()
        refused = await there.post(path, key)
        assert refused.status_code == 503
        assert refused.json()["type"] == "/problems/idempotency/store-unavailable"
        assert "retry-after" in refused.headers
        assert await there.effects(key) == 0
        way.mend()
        assert (await there.post(path, key)).status_code == 201
        assert await there.effects(key) == 1


async def test_a_route_that_may_do_without_does_without(database_url: str, way: CutProxy) -> None:
    async with ground(database_url, store_url=way.url) as there:
        way.cut()
        key = new_key()
        for run in (1, 2):
            answer = await there.post("/open", key)
            assert (answer.status_code, answer.json()) == (200, {"protected": False, "run": run})
        way.mend()
        answer = await there.post("/open", key)
        assert answer.json() == {"protected": True, "run": 3}
        assert (await there.post("/open", key)).headers[REPLAYED] == "true"


async def test_a_local_answer_that_cannot_be_kept_is_not_given(database_url: str, way: CutProxy) -> None:
    async with ground(database_url, store_url=way.url) as there:
        key = new_key()
        working = asyncio.create_task(there.post("/local", key, delay_ms=300))
        await there.begun(key)
        way.cut()
        assert (await working).status_code == 503
        way.mend()
        assert (await there.post("/local", key, delay_ms=300)).status_code == 201
        assert await there.effects(key) == 1


async def test_an_outside_answer_that_cannot_be_kept_is_not_given_and_not_lost(
    database_url: str, way: CutProxy
) -> None:
    may_answer = asyncio.Event()

    async def waits() -> Charged:
        await may_answer.wait()
        return next(iter(provider.charges.values()))

    async def has_called() -> bool:
        return bool(provider.keys)

    provider = ScriptedProvider(waits)
    short = {"lease": "PT0.5S", "renew_every": "PT0.2S"}
    async with ground(database_url, store_url=way.url, provider=provider, **short) as there:
        key = new_key()
        working = asyncio.create_task(there.post("/outside", key))
        await eventually(has_called, what="the provider is called")
        way.cut()
        may_answer.set()
        assert (await working).status_code == 503
        way.mend()

        async def is_answered() -> bool:
            return (await there.post("/outside", key)).status_code == 201

        await eventually(is_answered, what="the lease runs out and a retry goes on")
        assert len(provider.charges) == 1


async def test_without_a_key_and_without_the_store_a_transaction_cannot_be_had(
    database_url: str, way: CutProxy
) -> None:
    async with ground(database_url, store_url=way.url) as there:
        way.cut()
        for path in ("/optional", "/outside-optional"):
            answer = await there.post(path, None, mark="m")
            assert (answer.status_code, answer.json()["type"]) == (503, "/problems/idempotency/store-unavailable")
