"""What is written and counted with an answer, beside what its client sees (for that: tests/blackbox/idempotency)."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.support.idempotency.http_harness import Ground, ground, metric, new_key

pytestmark = pytest.mark.slow


async def states(there: Ground) -> list[str]:
    return [row["state"] for row in await there.rows("SELECT state::text FROM surefoot.idempotency_keys")]


async def test_an_error_undoes_the_work_and_says_in_its_row_what_may_follow(database_url: str) -> None:
    kept = {404: ["FAILED_TERMINAL"], 429: [], 500: ["FAILED_RETRY"], 0: ["FAILED_RETRY"]}
    async with ground(database_url) as there:
        for status, expected in kept.items():
            key = new_key()
            assert (await there.post("/local", key, status=status)).status_code == (status or 500)
            assert await states(there) == expected, status
            assert await there.effects(key) == 0
            await there.rows("DELETE FROM surefoot.idempotency_keys RETURNING 1")
        assert await there.rows("SELECT 1 FROM surefoot.outbox_events") == []


async def test_without_a_key_work_is_committed_and_undone_as_with_one_and_nothing_is_remembered(
    database_url: str,
) -> None:
    async with ground(database_url) as there:
        for path, status in (("/optional", 201), ("/counted", 404), ("/off", 500), ("/outside-optional", 201)):
            answer = await there.post(path, None, mark=path, status=status)
            assert answer.status_code == status
            assert await there.effects(path) == (1 if status == 201 else 0)
        assert len(await there.rows("SELECT 1 FROM surefoot.outbox_events")) == 1 + 2
        assert await states(there) == []


@pytest.mark.parametrize(
    ("path", "effects", "state"), [("/local", 0, "FAILED_RETRY"), ("/outside", 1, "FAILED_TERMINAL")]
)
async def test_an_answer_that_is_too_large_is_an_error_of_the_service(
    database_url: str, path: str, effects: int, state: str
) -> None:
    async with ground(database_url) as there:
        key = new_key()
        answer = await there.post(path, key, kind="large")
        assert (answer.status_code, answer.json()["type"]) == (500, "/problems/idempotency/answer-too-large")
        assert await there.effects(key) == effects
        assert await states(there) == [state]


async def test_a_request_that_is_too_large_is_refused_and_uses_no_key_up(database_url: str) -> None:
    """Its size is not known before it is read."""

    async def in_pieces(size: int) -> AsyncIterator[bytes]:
        yield b'{"mark": "m", "amount": 1, "note": "'
        yield b"x" * size
        yield b'"}'

    async with ground(database_url, largest_body=1000) as there:
        headers = {"Idempotency-Key": new_key(), "Content-Type": "application/json"}
        large = await there.client.post("/local", content=in_pieces(2000), headers=headers)
        assert (large.status_code, large.json()["type"]) == (413, "/problems/idempotency/body-too-large")
        assert (await there.client.post("/local", content=in_pieces(20), headers=headers)).status_code == 201


async def test_claims_replays_conflicts_and_mismatches_are_counted(database_url: str) -> None:
    route = {"route": "POST /local/{part}"}
    names = ("claims_total", "replays_total", "conflicts_total")
    async with ground(database_url, wait_in_flight="PT0.05S") as there:
        before = [metric(name, **route) for name in names]
        waited, mismatched = metric("wait_seconds_count"), metric("mismatches_total", tenant="one")
        key = new_key()
        working = asyncio.create_task(there.post("/local/a", key, delay_ms=400))
        await there.begun(key)
        assert (await there.post("/local/a", key, delay_ms=400)).status_code == 409
        await working
        await there.post("/local/a", key, delay_ms=400)
        await there.post("/local/a", key, amount=7)
        assert [metric(name, **route) - old for name, old in zip(names, before, strict=True)] == [1, 1, 1]
        assert metric("wait_seconds_count") - waited >= 1
        assert metric("mismatches_total", tenant="one") - mismatched == 1
        assert metric("running") == 0


async def test_missing_and_malformed_keys_are_counted_by_route(database_url: str) -> None:
    modes = ("counted", "/counted"), ("optional", "/optional"), ("required", "/local")
    async with ground(database_url) as there:
        for mode, path in modes:
            before = metric("missing_keys_total", route=f"POST {path}", mode=mode)
            await there.post(path, None, mark="m")
            assert metric("missing_keys_total", route=f"POST {path}", mode=mode) - before == 1
        before = metric("malformed_keys_total", route="POST /local")
        await there.post("/local", "short")
        assert metric("malformed_keys_total", route="POST /local") - before == 1
