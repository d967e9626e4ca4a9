"""The store does not answer: requests are refused and counted, unless a route says that it may do without."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from surefoot.idempotency import Store
from tests.support.idempotency.apps import Bank, paying
from tests.support.idempotency.http_harness import REPLAYED, ground, metric, new_key, served
from tests.support.idempotency.reference_app import app_settings
from tests.support.proxy import Proxy
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow

UNAVAILABLE = "/problems/idempotency/store-unavailable"


@pytest.fixture
async def way(database_url: str) -> AsyncIterator[Proxy]:
    """Between the layer and its database."""
    async with Proxy(database_url) as way:
        yield way


async def test_without_the_store_nothing_is_begun_and_with_it_again_it_is(database_url: str, way: Proxy) -> None:
    keyed = {path: new_key() for path in ("/local", "/outside", "/open-tx")}
    refused_before, outages = metric("fail_closed_total", route="POST /local"), metric("store_outages_total")
    async with ground(database_url, store_url=way.url) as there:
        way.cut()
        for path, key in (*keyed.items(), ("/optional", None), ("/outside-optional", None)):
            refused = await there.post(path, key, mark=path)
            assert (refused.status_code, refused.json()["type"]) == (503, UNAVAILABLE), path
            assert "retry-after" in refused.headers
            assert await there.effects(path) == 0
        assert metric("fail_closed_total", route="POST /local") - refused_before == 1
        assert metric("store_outages_total") - outages == 1, "one outage, however many meet it"
        way.mend()
        for path, key in keyed.items():
            assert (await there.post(path, key, mark=path)).status_code == 201
            assert await there.effects(path) == 1


async def test_a_route_that_may_do_without_does_without(database_url: str, way: Proxy) -> None:
    before = metric("fail_open_total", route="POST /open")
    async with ground(database_url, store_url=way.url) as there:
        way.cut()
        key = new_key()
        for run in (1, 2):
            answer = await there.post("/open", key)
            assert (answer.status_code, answer.json()) == (200, {"protected": False, "run": run})
        assert metric("fail_open_total", route="POST /open") - before == 2
        way.mend()
        assert (await there.post("/open", key)).json() == {"protected": True, "run": 3}
        assert (await there.post("/open", key)).headers[REPLAYED] == "true"


async def test_a_local_answer_that_cannot_be_kept_is_not_given(database_url: str, way: Proxy) -> None:
    async with ground(database_url, store_url=way.url) as there:
        key = new_key()
        working = asyncio.create_task(there.post("/local", key, delay_ms=300))
        await there.begun(key)
        way.cut()
        assert (await working).status_code == 503
        way.mend()
        assert (await there.post("/local", key, delay_ms=300)).status_code == 201
        assert await there.effects(key) == 1


async def test_an_outside_answer_that_cannot_be_kept_is_not_given_and_not_lost(way: Proxy) -> None:
    may_answer, key = asyncio.Event(), {"Idempotency-Key": new_key()}
    bank = Bank([may_answer.wait])
    settings = app_settings(lease="PT0.5S", renew_every="PT0.2S")
    async with Store(way.url, settings) as store, served(paying(store, bank, settings)) as client:
        working = asyncio.create_task(client.post("/", headers=key))
        await bank.called.wait()
        way.cut()
        may_answer.set()
        assert (await working).status_code == 503
        way.mend()

        async def is_answered() -> bool:
            return (await client.post("/", headers=key)).status_code == 200

        await eventually(is_answered, what="the lease runs out and a retry goes on")
    assert len(bank.charges) == 1
