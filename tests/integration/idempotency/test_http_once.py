"""A request takes effect once and is answered the same, over real HTTP, on local routes and on outside ones."""

import asyncio

import pytest

from tests.integration.idempotency.http_ground import REPLAYED, ground, new_key

pytestmark = pytest.mark.slow

BOTH = pytest.mark.parametrize("path", ["/local", "/outside"])


@BOTH
async def test_a_retry_gets_the_same_bytes_and_nothing_happens_twice(database_url: str, path: str) -> None:
    async with ground(database_url) as there:
        key = new_key()
        first = await there.post(path, key)
        again = await there.post(path, key)
        assert (first.status_code, again.status_code) == (201, 201)
        assert REPLAYED not in first.headers
        assert again.headers[REPLAYED] == "true"
        assert again.content == first.content
        assert again.headers["x-thing"] == first.json()["id"]
        assert again.headers.get_list("link") == first.headers.get_list("link")
        assert "set-cookie" in first.headers
        assert "set-cookie" not in again.headers
        assert await there.works.counted(key) == {"runs": 1, "effects": 1}


@BOTH
async def test_a_key_used_for_another_request_is_refused(database_url: str, path: str) -> None:
    async with ground(database_url) as there:
        key = new_key()
        first = await there.post(path, key)
        other = await there.post(path, key, amount=200)
        assert first.status_code == 201
        assert other.status_code == 422
        assert other.headers["content-type"] == "application/problem+json"
        assert other.json()["type"] == "/problems/idempotency/key-reused"
        assert REPLAYED not in other.headers
        assert await there.works.counted(key) == {"runs": 1, "effects": 1}


@BOTH
async def test_of_many_at_once_one_works_and_the_others_get_its_answer(database_url: str, path: str) -> None:
    async with ground(database_url) as there:
        key = new_key()
        answers = await asyncio.gather(*(there.post(path, key, delay_ms=100) for _ in range(20)))
        assert {answer.status_code for answer in answers} == {201}
        assert len({answer.content for answer in answers}) == 1
        assert sorted(answer.headers.get(REPLAYED, "") for answer in answers) == ["", *["true"] * 19]
        assert await there.works.counted(key) == {"runs": 1, "effects": 1}


@BOTH
async def test_who_waited_long_enough_is_told_that_it_is_in_flight(database_url: str, path: str) -> None:
    async with ground(database_url, wait_in_flight="PT0.1S") as there:
        key = new_key()
        working = asyncio.create_task(there.post(path, key, delay_ms=700))
        await there.begun(key)
        early = await there.post(path, key, delay_ms=700)
        assert early.status_code == 409
        assert early.json()["type"] == "/problems/idempotency/in-flight"
        assert int(early.headers["retry-after"]) >= 1
        first = await working
        assert first.status_code == 201
        assert (await there.post(path, key, delay_ms=700)).content == first.content
        assert await there.works.counted(key) == {"runs": 1, "effects": 1}
