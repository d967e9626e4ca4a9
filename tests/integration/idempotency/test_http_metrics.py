"""What is counted: claims, replays, conflicts, mismatches, missing keys and requests without the store."""

import asyncio

import pytest
from prometheus_client import REGISTRY

from tests.cut import CutProxy
from tests.integration.idempotency.http_ground import ground, new_key

pytestmark = pytest.mark.slow


def count(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(f"surefoot_idempotency_{name}", labels) or 0.0


async def test_claims_replays_conflicts_and_mismatches_are_counted(database_url: str) -> None:
    route = {"route": "POST /local/{part}"}
    names = ("claims_total", "replays_total", "conflicts_total")
    async with ground(database_url, wait_in_flight="PT0.05S") as there:
        before = [count(name, **route) for name in names]
        waited, mismatched = count("wait_seconds_count"), count("mismatches_total", tenant="one")
        key = new_key()
        working = asyncio.create_task(there.post("/local/a", key, delay_ms=400))
        await there.begun(key)
        assert (await there.post("/local/a", key, delay_ms=400)).status_code == 409
        await working
        await there.post("/local/a", key, delay_ms=400)
        await there.post("/local/a", key, amount=7)
        assert [count(name, **route) - old for name, old in zip(names, before, strict=True)] == [1, 1, 1]
        assert count("wait_seconds_count") - waited >= 1
        assert count("mismatches_total", tenant="one") - mismatched == 1
        assert count("running") == 0


async def test_missing_keys_are_counted_by_route_and_mode(database_url: str) -> None:
    wanted = [("/counted", "counted"), ("/optional", "optional"), ("/local", "required")]
    async with ground(database_url) as there:
        for path, mode in wanted:
            before = count("missing_keys_total", route=f"POST {path}", mode=mode)
            await there.post(path, None, mark="m")
            assert count("missing_keys_total", route=f"POST {path}", mode=mode) - before == 1
        before = count("malformed_keys_total", route="POST /local")
        await there.post("/local", "short")
        assert count("malformed_keys_total", route="POST /local") - before == 1


async def test_what_is_refused_or_unprotected_without_the_store_is_counted(database_url: str) -> None:
    async with CutProxy(database_url) as way, ground(database_url, store_url=way.url) as there:
        closed, opened = count("fail_closed_total", route="POST /local"), count("fail_open_total", route="POST /open")
        outages = count("store_outages_total")
        way.cut()
        for _ in range(3):
            await there.post("/local", new_key())
            await there.post("/open", new_key())
        assert count("fail_closed_total", route="POST /local") - closed == 3
        assert count("fail_open_total", route="POST /open") - opened == 3
        assert count("store_outages_total") - outages == 1, "one outage, however many meet it"
