"""Refunds of charges over real HTTP: once for each key, and never more than was taken."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.services.payment_api_harness import BOLT_KEY, Api, api_ground, assert_problem, new_key


@pytest.fixture
async def api(database_url: str, tmp_path: Path) -> AsyncIterator[Api]:
    async with api_ground(database_url, tmp_path) as api:
        yield api


async def test_a_part_and_then_the_rest_are_given_back(api: Api) -> None:
    charge_id = await api.captured(2000)
    part = await api.refund(charge_id, 500)
    assert part.status_code == 201, part.text
    assert (part.json()["status"], part.json()["charge_id"]) == ("REFUNDED", charge_id)
    assert (await api.get(f"/v1/refunds/{part.json()['id']}")).json() == part.json()
    shown = (await api.get(f"/v1/charges/{charge_id}")).json()
    assert (shown["status"], shown["refunded"]["minor_units"]) == ("CAPTURED", 500)
    assert await api.balance() == 1500
    assert (await api.refund(charge_id, 1500)).status_code == 201
    shown = (await api.get(f"/v1/charges/{charge_id}")).json()
    assert (shown["status"], shown["refunded"]["minor_units"]) == ("REFUNDED", 2000)
    assert await api.provider.sums() == (1, 2000, 2000)
    assert await api.told() == ["charge.captured", "charge.refunded", "charge.refunded"]
    await api.assert_sound()


async def test_a_refund_sent_twice_is_made_once(api: Api) -> None:
    charge_id, key = await api.captured(2000), new_key()
    first, again = await api.refund(charge_id, 500, key=key), await api.refund(charge_id, 500, key=key)
    assert (again.status_code, again.content) == (201, first.content)
    assert await api.provider.sums() == (1, 2000, 500)
    await api.assert_sound()


async def test_more_than_is_left_is_refused_and_stays_refused(api: Api) -> None:
    charge_id, key = await api.captured(2000), new_key()
    assert (await api.refund(charge_id, 1500)).status_code == 201
    first, again = await api.refund(charge_id, 501, key=key), await api.refund(charge_id, 501, key=key)
    problem = assert_problem(first, 409, "exceeds_captured", "5.00 EUR of this charge is left")
    assert problem["left"] == {"minor_units": 500, "currency": "EUR"}
    assert again.content == first.content
    assert await api.provider.sums() == (1, 2000, 1500)
    await api.assert_sound()


async def test_refunds_at_once_give_back_no_more_than_was_taken(api: Api) -> None:
    charge_id = await api.captured(2000)
    answers = await asyncio.gather(*(api.refund(charge_id, 700) for _ in range(6)))
    assert sorted(answer.status_code for answer in answers) == [201, 201, 409, 409, 409, 409]
    assert await api.provider.sums() == (1, 2000, 1400)
    await api.assert_sound()


async def test_a_refund_that_the_provider_did_not_answer_is_the_same_when_asked_again(api: Api) -> None:
    charge_id, key = await api.captured(2000), new_key()
    await api.provider.behave("timeout_after", share=1, operation="refund")
    first = await api.refund(charge_id, 500, key=key)
    assert first.status_code == 504, first.text
    again = await api.refund(charge_id, 500, key=key)
    assert again.status_code == 201, again.text
    assert again.json()["id"] == first.json()["resource"]
    assert await api.provider.sums() == (1, 2000, 500)
    await api.assert_sound()


async def test_what_the_provider_does_not_give_back_returns_to_the_account(api: Api) -> None:
    charge_id = await api.captured(2000)
    await given_back_by_hand(api, charge_id, 1800)
    refused = await api.refund(charge_id, 500)
    problem = assert_problem(refused, 409, "refused", "exceeds_captured")
    assert (await api.get(f"/v1/refunds/{problem['refund_id']}")).json()["status"] == "REFUSED"
    assert await api.balance() == 2000


async def test_it_returns_when_the_account_is_released_if_that_was_frozen_on_the_way(api: Api) -> None:
    charge_id, key = await api.captured(2000), new_key()
    await given_back_by_hand(api, charge_id, 1800)
    await api.provider.kill()
    assert_problem(await api.refund(charge_id, 500, key=key), 503, "provider_away")
    await api.freeze()
    await api.provider.start()
    assert_problem(await api.refund(charge_id, 500, key=key), 503, "frozen", "booked when the account is released")
    assert await api.balance() == 1500
    await api.release()
    assert_problem(await api.refund(charge_id, 500, key=key), 409, "refused", "exceeds_captured")
    assert await api.balance() == 2000


async def given_back_by_hand(api: Api, charge_id: str, units: int) -> None:
    """At the provider's own desk, so that we know nothing of it."""
    txn = (await api.get(f"/v1/charges/{charge_id}")).json()["gateway_txn_id"]
    asked = {"charge_id": txn, "refund_request_id": "by-hand", "amount": {"minor_units": units, "currency": "EUR"}}
    assert (await api.provider.post("/refunds", asked)).status_code == 201


async def test_what_was_moved_elsewhere_cannot_be_given_back(api: Api) -> None:
    charge_id = await api.captured(2000)
    await api.open("savings")
    assert (await api.transfer("main-EUR", "savings", 1900)).status_code == 201
    assert_problem(await api.refund(charge_id, 500), 409, "INSUFFICIENT")
    assert await api.provider.sums() == (1, 2000, 0)
    await api.assert_sound()


async def test_a_charge_that_was_declined_or_is_nobody_s_is_not_given_back(api: Api) -> None:
    await api.provider.behave("decline", share=1)
    declined = (await api.charge()).json()["charge_id"]
    assert_problem(await api.refund(declined, 1), 409, "not_captured", "DECLINED")
    assert_problem(await api.refund("ch_nobody", 1), 404, "unknown")


async def test_another_currency_and_another_tenant_get_nothing(api: Api) -> None:
    charge_id = await api.captured(2000)
    yen = {"charge_id": charge_id, "amount": {"minor_units": 1, "currency": "JPY"}}
    assert_problem(await api.post("/v1/refunds", yen), 422, "wrong_currency")
    euro = {"charge_id": charge_id, "amount": {"minor_units": 1, "currency": "EUR"}}
    bolt = {"Authorization": f"Bearer {BOLT_KEY}"}
    assert_problem(await api.post("/v1/refunds", euro, headers=bolt), 404, "unknown")
