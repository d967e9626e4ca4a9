"""Calls to a provider: one key for all attempts, and an outcome that nobody knows is said to be so."""

import asyncio

import pytest

from surefoot.idempotency import ProviderBusy
from tests.idempotency_provider import Charged
from tests.integration.idempotency.http_ground import REPLAYED, Ground, ground, new_key
from tests.integration.idempotency.scripted_provider import ScriptedProvider, hangs, raises
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow


async def test_an_outcome_that_is_not_known_is_said_so_and_a_retry_calls_under_the_same_key(database_url: str) -> None:
    provider = ScriptedProvider(raises(ConnectionResetError()))
    async with ground(database_url, provider=provider) as there:
        key = new_key()
        first = await there.post("/outside", key)
        assert first.status_code == 504
        assert first.json()["type"] == "/problems/idempotency/outcome-unknown"
        assert int(first.headers["retry-after"]) >= 1
        row = await there.state(first.json()["resource"])
        assert (row["state"], row["outcome_unknown"]) == ("FAILED_RETRY", True)
        assert row["due_at"] is not None
        again = await there.post("/outside", key)
        assert again.status_code == 201
        assert again.json()["id"] == first.json()["resource"]
        assert len(provider.keys) == 2
        assert len(provider.charges) == 1
        assert (await there.post("/outside", key)).headers[REPLAYED] == "true"
        assert len(provider.keys) == 2


async def test_a_provider_that_does_not_answer_in_time_leaves_the_outcome_unknown(database_url: str) -> None:
    provider = ScriptedProvider(hangs)
    async with ground(database_url, provider=provider, call_timeout="PT0.1S") as there:
        key = new_key()
        assert (await there.post("/outside", key)).status_code == 504
        assert (await there.post("/outside", key)).status_code == 201
        assert len(provider.charges) == 1


async def test_a_provider_that_has_our_call_in_flight_means_in_flight(database_url: str) -> None:
    provider = ScriptedProvider(raises(ProviderBusy()))
    async with ground(database_url, provider=provider) as there:
        key = new_key()
        busy = await there.post("/outside", key)
        assert busy.status_code == 409
        assert busy.json()["type"] == "/problems/idempotency/in-flight"
        assert "retry-after" in busy.headers
        assert (await there.post("/outside", key)).status_code == 201
        assert len(set(provider.keys)) == 1


async def test_phases_that_are_done_are_not_done_again_and_minted_values_stay(database_url: str) -> None:
    provider = ScriptedProvider(raises(ConnectionResetError()))
    async with ground(database_url, provider=provider) as there:
        key = new_key()
        unknown = await there.post("/outside", key)
        done = await there.post("/outside", key)
        assert done.json()["id"] == unknown.json()["resource"]
        published = await there.rows("SELECT body FROM surefoot.outbox_events ORDER BY position")
        assert [b"created" in row["body"] for row in published] == [True, False]
        phases = await there.rows("SELECT name, result::text FROM surefoot.idempotency_phases ORDER BY at")
        assert [row["name"] for row in phases] == ["created", "finished"]
        assert '"price":"1.10"' in phases[0]["result"].replace(" ", "")


async def test_a_refusal_that_nothing_was_begun_for_frees_the_key_and_one_after_a_phase_does_not(
    database_url: str,
) -> None:
    async with ground(database_url) as there:
        key = new_key()
        assert (await there.post("/outside", key, status=429, times=1)).status_code == 429
        (row,) = await there.rows("SELECT state::text, attempts FROM surefoot.idempotency_keys")
        assert (row["state"], row["attempts"]) == ("FAILED_RETRY", 1)
        assert (await there.post("/outside", key, status=429, times=1)).status_code == 201
        assert await there.effects(key) == 1


@pytest.mark.parametrize("status", [500, 0])
async def test_a_failure_after_the_call_is_gone_on_with_under_the_same_key(database_url: str, status: int) -> None:
    provider = ScriptedProvider()
    async with ground(database_url, provider=provider) as there:
        key = new_key()
        assert (await there.post("/outside", key, status=status, times=1)).status_code == 500
        assert (await there.post("/outside", key, status=status, times=1)).status_code == 201
        assert len(provider.charges) == 1


async def test_where_failures_are_replayed_the_same_failure_comes_again(database_url: str) -> None:
    async with ground(database_url) as there:
        for status in (500, 0):
            key = new_key()
            first = await there.post("/outside-replayed", key, status=status, times=1)
            again = await there.post("/outside-replayed", key, status=status, times=1)
            assert (first.status_code, again.status_code) == (500, 500)
            assert again.content == first.content
            assert again.headers[REPLAYED] == "true"
            assert await there.runs(key) == 1


async def test_a_refusal_does_not_answer_for_a_call_whose_outcome_is_in_doubt(database_url: str) -> None:
    """The row is made to look as if an attempt had called and died: a handler that then refuses before it has come as
    far as the call would bury a charge."""
    provider = ScriptedProvider(raises(ConnectionResetError()))
    async with ground(database_url, provider=provider) as there:
        key = new_key()
        unknown = await there.post("/outside-moody", key)
        assert unknown.status_code == 504
        refused = await there.post("/outside-moody", key)
        assert refused.status_code == 504, "the handler says 422, and that is not the truth"
        assert refused.json()["resource"] == unknown.json()["resource"]
        row = await there.state(unknown.json()["resource"])
        assert (row["state"], row["outcome_unknown"], row["attempts"]) == ("FAILED_RETRY", True, 2)
        assert (await there.post("/outside-moody", key)).status_code == 201
        assert len(provider.charges) == 1


async def test_a_rate_limit_does_not_free_a_key_whose_outcome_is_in_doubt(database_url: str) -> None:
    provider = ScriptedProvider(raises(ConnectionResetError()))
    async with ground(database_url, provider=provider) as there:
        key = new_key()
        assert (await there.post("/outside-moody", key, mood=429)).status_code == 504
        assert (await there.post("/outside-moody", key, mood=429)).status_code == 429
        assert (await there.post("/outside-moody", key, mood=429)).status_code == 201
        assert len(provider.charges) == 1


async def test_who_lost_the_claim_gives_the_answer_of_whoever_has_it(database_url: str) -> None:
    """The first attempt hangs in its call until its lease has run out and a second one has answered."""
    first_may_go = asyncio.Event()

    async def waits() -> Charged:
        await first_may_go.wait()
        return next(iter(provider.charges.values()))

    provider = ScriptedProvider(waits)
    async with ground(database_url, provider=provider) as there:
        key = new_key()
        first = asyncio.create_task(there.post("/outside", key))
        await there.begun(key)
        await _lease_runs_out(there, provider)
        async with ground(database_url, provider=provider) as other:
            second = await other.post("/outside", key)
        first_may_go.set()
        assert second.status_code == 201
        late = await first
        assert (late.status_code, late.content) == (201, second.content)
        assert late.headers[REPLAYED] == "true"
        assert len(provider.charges) == 1


async def test_tried_too_often_it_is_left_to_people_and_goes_on_slowly(database_url: str) -> None:
    turns = [raises(ConnectionResetError()) for _ in range(2)]
    async with ground(database_url, provider=ScriptedProvider(*turns), retry_longest="PT1H") as there:
        key = new_key()
        for _ in range(3):
            answer = await there.post("/outside-twice", key)
            assert answer.status_code == 504
        row = await there.state(answer.json()["resource"])
        assert (row["attempts"], row["outcome_unknown"]) == (2, True)
        (left,) = await there.rows(
            "SELECT due_at > now() + interval '50 minutes' AS slowly FROM surefoot.idempotency_keys"
        )
        assert left["slowly"]
        history = await there.rows("SELECT what FROM surefoot.idempotency_history ORDER BY number")
        assert [row["what"] for row in history].count("exhausted") == 1


async def test_without_a_key_an_optional_route_works_and_remembers_nothing(database_url: str) -> None:
    provider = ScriptedProvider()
    async with ground(database_url, provider=provider) as there:
        assert (await there.post("/outside-optional", None, mark="m")).status_code == 201
        assert (await there.post("/outside-optional", None, mark="m")).status_code == 201
        assert len(provider.charges) == 2
        assert await there.rows("SELECT 1 FROM surefoot.idempotency_keys") == []
        published = await there.rows("SELECT body FROM surefoot.outbox_events ORDER BY position")
        assert [b"created" in row["body"] for row in published] == [True, False, True, False]


async def _lease_runs_out(there: Ground, provider: ScriptedProvider) -> None:
    async def has_called() -> bool:
        return bool(provider.keys)

    await eventually(has_called, what="the provider is called")
    await there.rows("UPDATE surefoot.idempotency_keys SET lease_until = now() - interval '1 second' RETURNING 1")
