"""Transfers between a tenant's accounts, and the accounts themselves, over real HTTP."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.services.payment_api_harness import BOLT_KEY, Api, api_ground, assert_problem, new_key


@pytest.fixture
async def api(database_url: str, tmp_path: Path) -> AsyncIterator[Api]:
    """With 20.00 EUR in main-EUR, and an account for savings."""
    async with api_ground(database_url, tmp_path) as api:
        await api.captured(2000)
        await api.open("savings")
        yield api


async def test_money_moves_between_two_accounts(api: Api) -> None:
    answer = await api.transfer("main-EUR", "savings", 700)
    assert answer.status_code == 201, answer.text
    moved = answer.json()
    assert moved["id"].startswith("tr_")
    assert (moved["source"], moved["target"], moved["balance"]["minor_units"]) == ("main-EUR", "savings", 1300)
    assert (await api.balance(), await api.balance("savings")) == (1300, 700)
    lines = (await api.get("/v1/accounts/savings/lines")).json()["lines"]
    assert [(line["operation"], line["change"]["minor_units"]) for line in lines] == [(moved["id"], 700)]
    await api.assert_sound()


async def test_a_transfer_sent_ten_times_at_once_is_made_once(api: Api) -> None:
    key = new_key()
    answers = await asyncio.gather(*(api.transfer("main-EUR", "savings", 700, key=key) for _ in range(10)))
    assert {(answer.status_code, answer.content) for answer in answers} == {(201, answers[0].content)}
    assert await api.balance() == 1300


async def test_what_is_not_there_cannot_be_moved_and_the_answer_stays(api: Api) -> None:
    key = new_key()
    first = await api.transfer("main-EUR", "savings", 2001, key=key)
    assert_problem(first, 409, "INSUFFICIENT", "less than that")
    await api.captured(5000)
    again = await api.transfer("main-EUR", "savings", 2001, key=key)
    assert again.content == first.content
    assert await api.balance("savings") == 0


async def test_an_account_takes_no_more_than_its_cap(api: Api) -> None:
    await api.open("purse", cap=100)
    assert_problem(await api.transfer("main-EUR", "purse", 101), 409, "CAP_EXCEEDED")
    assert (await api.transfer("main-EUR", "purse", 100)).status_code == 201
    assert (await api.get("/v1/accounts/purse")).json()["cap"] == {"minor_units": 100, "currency": "EUR"}


async def test_accounts_that_cannot_take_part_are_named_so(api: Api) -> None:
    await api.open("yen", "JPY")
    assert_problem(await api.transfer("main-EUR", "nowhere", 1), 404, "unknown")
    assert_problem(await api.transfer("main-EUR", "yen", 1), 422, "wrong_currency")
    assert_problem(await api.transfer("main-EUR", "main-EUR", 1), 422, "same_account")


async def test_a_frozen_account_moves_nothing(api: Api) -> None:
    await api.freeze()
    assert_problem(await api.transfer("main-EUR", "savings", 1), 409, "frozen")
    (charge_id,) = await api.connection.fetchrow("SELECT charge_id FROM payments.charges")
    assert_problem(await api.refund(charge_id, 1), 409, "frozen")
    assert await api.provider.sums() == (1, 2000, 0)


async def test_accounts_that_others_hold_on_to_for_long_are_not_waited_for(api: Api) -> None:
    key = new_key()
    async with api.connection.transaction():
        await api.connection.execute("SELECT FROM ledger.accounts WHERE account_id = 'acme/savings' FOR UPDATE")
        refused = await api.transfer("main-EUR", "savings", 700, key=key)
    assert_problem(refused, 503, "THROTTLED", "same Idempotency-Key")
    assert refused.headers["retry-after"] == "1"
    assert (await api.transfer("main-EUR", "savings", 700, key=key)).status_code == 201
    assert await api.balance("savings") == 700


async def test_an_account_is_opened_once_and_in_one_currency(api: Api) -> None:
    first, again = await api.open("purse", cap=100), await api.open("purse", cap=100)
    assert (first.status_code, first.json()) == (200, again.json())
    assert_problem(await api.open("purse", "JPY"), 409, "wrong_currency")
    assert_problem(await api.open("coins", "XXX"), 422, "does_not_fit")


async def test_another_tenant_s_accounts_are_out_of_reach(api: Api) -> None:
    assert_problem(await api.get("/v1/accounts/savings", BOLT_KEY), 404, "unknown")
    assert_problem(await api.get("/v1/accounts/savings/lines", BOLT_KEY), 404, "unknown")
    body = {"source": "savings", "target": "acme/savings", "amount": {"minor_units": 1, "currency": "EUR"}}
    assert_problem(await api.post("/v1/transfers", body), 422, "does_not_fit")


async def test_money_is_conserved_when_many_move_it_at_once(api: Api) -> None:
    await api.transfer("main-EUR", "savings", 1000)
    ways = [("main-EUR", "savings"), ("savings", "main-EUR")] * 20
    answers = await asyncio.gather(*(api.transfer(source, target, 30) for source, target in ways))
    assert {answer.status_code for answer in answers} <= {201, 409, 503}
    assert await api.balance() + await api.balance("savings") == 2000
    await api.assert_sound()
