"""Charges over real HTTP, with the simulated provider as a process of its own."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.services.payment_api_harness import (
    BOLT_KEY,
    EUR_20,
    Api,
    api_ground,
    assert_problem,
    new_key,
)


@pytest.fixture
async def api(database_url: str, tmp_path: Path) -> AsyncIterator[Api]:
    async with api_ground(database_url, tmp_path) as api:
        yield api


async def test_a_charge_takes_money_and_puts_it_on_the_ledger(api: Api) -> None:
    answer = await api.charge(description="Order 7")
    assert answer.status_code == 201, answer.text
    charge = answer.json()
    assert charge["id"].startswith("ch_")
    assert (charge["status"], charge["amount"], charge["description"]) == ("CAPTURED", EUR_20, "Order 7")
    assert (await api.get(f"/v1/charges/{charge['id']}")).json() == charge
    assert await api.provider.sums() == (1, 2000, 0)
    assert await api.balance() == 2000
    assert await api.told() == ["charge.captured"]
    await api.assert_sound()


async def test_the_same_request_again_gets_the_same_bytes_and_takes_nothing(api: Api) -> None:
    key = new_key()
    first, again = await api.charge(key=key), await api.charge(key=key)
    assert (again.status_code, again.content) == (201, first.content)
    assert again.headers["x-idempotency-replayed"] == "true"
    assert "x-idempotency-replayed" not in first.headers
    assert await api.provider.sums() == (1, 2000, 0)
    assert await api.told() == ["charge.captured"]


async def test_the_same_request_ten_times_at_once_takes_the_money_once(api: Api) -> None:
    key = new_key()
    answers = await asyncio.gather(*(api.charge(key=key) for _ in range(10)))
    assert {(answer.status_code, answer.content) for answer in answers} == {(201, answers[0].content)}
    assert await api.provider.sums() == (1, 2000, 0)
    await api.assert_sound()


async def test_a_declined_charge_is_answered_with_402_and_stays_declined(api: Api) -> None:
    await api.provider.behave("decline", share=1, reason="insufficient_funds")
    key = new_key()
    first, again = await api.charge(key=key), await api.charge(key=key)
    problem = assert_problem(first, 402, "declined", "no money was taken")
    assert problem["code"] == "insufficient_funds"
    assert again.content == first.content
    shown = (await api.get(f"/v1/charges/{problem['charge_id']}")).json()
    assert (shown["status"], shown["reason"]) == ("DECLINED", "insufficient_funds")
    assert await api.balance() == 0
    assert await api.told() == ["charge.declined"]
    await api.assert_sound()


@pytest.mark.parametrize("behaviour", ["timeout_after", "error_after", "error_before"])
async def test_where_nobody_knows_what_the_provider_did_the_retry_finds_the_same_charge(
    api: Api, behaviour: str
) -> None:
    await api.provider.behave(behaviour, share=1)
    key = new_key()
    first = await api.charge(key=key)
    assert first.status_code == 504, first.text
    assert first.headers["content-type"] == "application/problem+json"
    assert first.json()["type"].endswith("/outcome-unknown")
    assert int(first.headers["retry-after"]) >= 1
    charge_id = first.json()["resource"]
    assert (await api.get(f"/v1/charges/{charge_id}")).json()["status"] == "PENDING"
    again = await api.charge(key=key)
    assert again.status_code == 201, again.text
    assert again.json()["id"] == charge_id
    assert await api.provider.sums() == (1, 2000, 0)
    await api.assert_sound()


async def test_a_provider_that_is_not_there_took_nothing_and_is_asked_again(api: Api) -> None:
    await api.provider.kill()
    key = new_key()
    first = await api.charge(key=key)
    problem = assert_problem(first, 503, "provider_away", "no money was taken so far")
    assert first.headers["retry-after"] == "2"
    await api.provider.start()
    again = await api.charge(key=key)
    assert again.status_code == 201, again.text
    assert again.json()["id"] == problem["charge_id"]
    assert await api.provider.sums() == (1, 2000, 0)
    await api.assert_sound()


async def test_a_provider_that_is_not_there_the_second_time_says_nothing_of_the_first(api: Api) -> None:
    await api.provider.behave("error_after", share=1)
    key = new_key()
    assert (await api.charge(key=key)).status_code == 504
    await api.provider.kill()
    again = await api.charge(key=key)
    assert again.status_code == 504, again.text
    assert again.json()["type"].endswith("/outcome-unknown")


async def test_a_charge_to_a_frozen_account_is_refused_before_the_provider_is_asked(api: Api) -> None:
    await api.captured()
    await api.freeze()
    assert_problem(await api.charge(), 409, "frozen", "until it is released")
    assert await api.provider.sums() == (1, 2000, 0)
    await api.release()
    assert (await api.charge()).status_code == 201
    await api.assert_sound()


async def test_a_charge_whose_account_is_frozen_on_the_way_is_booked_when_it_is_released(api: Api) -> None:
    await api.provider.behave("error_after", share=1)
    key = new_key()
    assert (await api.charge(key=key)).status_code == 504
    await api.freeze()
    problem = assert_problem(await api.charge(key=key), 503, "frozen", "booked when the account is released")
    assert await api.balance() == 0
    await api.release()
    answer = await api.charge(key=key)
    assert (answer.status_code, answer.json()["id"]) == (201, problem["charge_id"])
    assert (await api.provider.sums(), await api.balance()) == ((1, 2000, 0), 2000)
    await api.assert_sound()


async def test_a_key_used_for_another_amount_is_refused_and_takes_nothing(api: Api) -> None:
    key = new_key()
    await api.charge(2000, key=key)
    refused = await api.charge(2001, key=key)
    assert refused.status_code == 422
    assert refused.json()["type"].endswith("/key-reused")
    assert await api.provider.sums() == (1, 2000, 0)


async def test_a_key_is_one_tenant_s_own(api: Api) -> None:
    key = new_key()
    acme = await api.charge(key=key)
    bolt = await api.post("/v1/charges", {"amount": EUR_20}, key=key, headers={"Authorization": f"Bearer {BOLT_KEY}"})
    assert (acme.status_code, bolt.status_code) == (201, 201)
    assert acme.json()["id"] != bolt.json()["id"]


async def test_another_tenant_s_charge_is_not_there(api: Api) -> None:
    charge_id = await api.captured()
    assert_problem(await api.get(f"/v1/charges/{charge_id}", BOLT_KEY), 404, "unknown")
    assert_problem(await api.get("/v1/accounts/main-EUR", BOLT_KEY), 404, "unknown")
