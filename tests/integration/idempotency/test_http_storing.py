"""Which answers are kept, what an error answer undoes, and what is refused before any work."""

import asyncio

import pytest

from tests.integration.idempotency.http_ground import REPLAYED, Ground, ground, new_key

pytestmark = pytest.mark.slow


async def _state(there: Ground) -> list[str]:
    return [row["state"] for row in await there.rows("SELECT state::text FROM surefoot.idempotency_keys")]


@pytest.mark.parametrize("status", [400, 402, 404, 409, 422])
async def test_an_error_of_the_work_is_kept_and_what_it_did_is_undone(database_url: str, status: int) -> None:
    async with ground(database_url) as there:
        key = new_key()
        first = await there.post("/local", key, status=status, times=1)
        again = await there.post("/local", key, status=status, times=1)
        assert (first.status_code, again.status_code) == (status, status)
        assert again.content == first.content
        assert again.headers[REPLAYED] == "true"
        assert await there.works.counted(key) == {"runs": 1, "effects": 0}
        assert await there.rows("SELECT 1 FROM surefoot.outbox_events") == []
        assert await _state(there) == ["FAILED_TERMINAL"]


@pytest.mark.parametrize("status", [401, 403, 408, 413, 415, 421, 425, 429])
async def test_an_error_of_the_moment_is_not_kept(database_url: str, status: int) -> None:
    async with ground(database_url) as there:
        key = new_key()
        assert (await there.post("/local", key, status=status, times=1)).status_code == status
        assert await _state(there) == []
        assert (await there.post("/local", key, status=status, times=1)).status_code == 201
        assert await there.works.counted(key) == {"runs": 2, "effects": 1}


@pytest.mark.parametrize("status", [500, 503, 0])
async def test_a_failure_leaves_the_key_to_the_same_request_alone(database_url: str, status: int) -> None:
    async with ground(database_url) as there:
        key = new_key()
        failed = await there.post("/local", key, status=status, times=1)
        assert failed.status_code == (status or 500)
        assert await _state(there) == ["FAILED_RETRY"]
        assert await there.effects(key) == 0
        assert (await there.post("/local", key, amount=7)).status_code == 422
        assert (await there.post("/local", key, status=status, times=1)).status_code == 201
        assert await there.works.counted(key) == {"runs": 2, "effects": 1}


@pytest.mark.parametrize("status", [500, 0])
async def test_where_failures_are_replayed_the_same_bytes_come_again(database_url: str, status: int) -> None:
    async with ground(database_url) as there:
        key = new_key()
        first = await there.post("/replayed-failures", key, status=status)
        again = await there.post("/replayed-failures", key, status=status)
        assert (first.status_code, again.status_code) == (500, 500)
        assert again.content == first.content
        assert again.headers[REPLAYED] == "true"
        assert await there.works.counted(key) == {"runs": 1, "effects": 0}


@pytest.mark.parametrize(
    ("path", "effects", "state"), [("/local", 0, "FAILED_RETRY"), ("/outside", 1, "FAILED_TERMINAL")]
)
async def test_an_answer_that_is_too_large_is_an_error_of_the_service(
    database_url: str, path: str, effects: int, state: str
) -> None:
    async with ground(database_url) as there:
        key = new_key()
        answer = await there.post(path, key, kind="large")
        assert answer.status_code == 500
        assert answer.json()["type"] == "/problems/idempotency/answer-too-large"
        assert await there.effects(key) == effects
        assert await _state(there) == [state]


async def test_a_request_that_is_too_large_is_refused_and_uses_no_key_up(database_url: str) -> None:
    async with ground(database_url, largest_body=1000) as there:
        key = new_key()

        async def in_pieces(size: int):  # type: ignore[no-untyped-def]
            yield b'{"mark": "m", "amount": 1, "note": "'
            yield b"x" * size
            yield b'"}'

        headers = {"Idempotency-Key": key, "Content-Type": "application/json"}
        large = await there.client.post("/local", content=in_pieces(2000), headers=headers)
        assert large.status_code == 413
        assert large.json()["type"] == "/problems/idempotency/body-too-large"
        small = await there.client.post("/local", content=in_pieces(20), headers=headers)
        assert small.status_code == 201


async def test_what_the_framework_refuses_is_passed_on_and_never_kept(database_url: str) -> None:
    async with ground(database_url) as there:
        key = new_key()
        refused = await there.post("/local", key, amount="much")
        assert refused.status_code == 422
        assert refused.headers["content-type"] == "application/json"
        assert await _state(there) == []
        assert (await there.post("/local", key)).status_code == 201


async def test_keys_that_are_missing_or_cannot_be_read_are_refused(database_url: str) -> None:
    async with ground(database_url) as there:
        missing = await there.post("/local", None)
        assert (missing.status_code, missing.json()["type"]) == (400, "/problems/idempotency/key-missing")
        short = await there.post("/local", "short")
        assert (short.status_code, short.json()["type"]) == (400, "/problems/idempotency/key-malformed")
        assert await there.rows("SELECT 1 FROM reference.runs") == []


async def test_problem_types_are_pages(database_url: str) -> None:
    async with ground(database_url) as there:
        problem = (await there.post("/local", None)).json()
        page = await there.client.get(problem["type"])
        assert page.status_code == 200
        assert page.headers["content-type"].startswith("text/html")
        assert f"<h1>{problem['title']}</h1>" in page.text
        markdown = await there.client.get(problem["type"], headers={"Accept": "text/markdown"})
        assert markdown.headers["content-type"].startswith("text/markdown")
        assert markdown.text.startswith(f"# {problem['title']}\n")
        assert (await there.client.get("/problems/idempotency/nonsense")).status_code == 404


async def test_an_expired_key_is_gone_with_the_time_of_the_first_request(database_url: str) -> None:
    async with ground(database_url) as there:
        key = new_key()
        await there.post("/local", key)
        (row,) = await there.rows(
            "UPDATE surefoot.idempotency_keys SET replay_until = now() - interval '1 second' RETURNING created_at"
        )
        gone = await there.post("/local", key)
        assert gone.status_code == 410
        assert gone.json()["type"] == "/problems/idempotency/key-expired"
        assert gone.json()["first_at"] == row["created_at"].isoformat()


async def test_a_key_of_one_tenant_means_nothing_to_another(database_url: str) -> None:
    async with ground(database_url) as there:
        key = new_key()
        first = await there.post("/local", key)
        other = await there.client.post(
            "/local",
            json={"amount": 100, "mark": key},
            headers={"Idempotency-Key": key, "Authorization": "Bearer two"},
        )
        assert (first.status_code, other.status_code) == (201, 201)
        assert first.json()["id"] != other.json()["id"]


async def test_without_a_key_a_local_route_commits_and_undoes_as_with_one(database_url: str) -> None:
    async with ground(database_url) as there:
        answers = await asyncio.gather(*(there.post("/optional", None, mark="m") for _ in range(3)))
        assert [answer.status_code for answer in answers] == [201] * 3
        assert (await there.post("/counted", None, mark="m", status=404)).status_code == 404
        assert (await there.post("/off", new_key(), mark="m", status=0)).status_code == 500
        assert await there.works.counted("m") == {"runs": 5, "effects": 3}
        assert len(await there.rows("SELECT 1 FROM surefoot.outbox_events")) == 3
        assert await _state(there) == []
