"""The simulated provider, as a process: one charge for each key, voids that bar, refunds that add up, and trouble."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import pytest

from tests.support import processes
from tests.support.services.provider_process import ProviderProcess, provider_running
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow
EUR_20 = {"minor_units": 2000, "currency": "EUR"}


@pytest.fixture
async def provider(empty_database_url: str, tmp_path: Path) -> AsyncIterator[ProviderProcess]:
    async with provider_running(empty_database_url, tmp_path) as provider:
        yield provider


def charge_of(order_id: str = "o-1", amount: int = 2000) -> dict[str, Any]:
    return {"order_id": order_id, "amount": {"minor_units": amount, "currency": "EUR"}}


def refund_of(charge_id: str, request: str, amount: int) -> dict[str, Any]:
    return {
        "charge_id": charge_id,
        "refund_request_id": request,
        "amount": {"minor_units": amount, "currency": "EUR"},
    }


async def charged(provider: ProviderProcess, key: str = "k-1", **what: Any) -> str:
    answer = await provider.post("/charges", charge_of(**what), key)
    assert answer.status_code == 201, answer.text
    charge_id: str = answer.json()["charge_id"]
    return charge_id


async def test_the_same_key_is_the_same_charge(provider: ProviderProcess) -> None:
    first = await provider.post("/charges", charge_of(), "k-1")
    again = await provider.post("/charges", charge_of(), "k-1")
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.json() == again.json()
    assert first.json()["status"] == "CAPTURED"
    assert await provider.sums() == (1, 2000, 0)


async def test_many_at_once_with_the_same_key_are_one_charge(provider: ProviderProcess) -> None:
    answers = await asyncio.gather(*(provider.post("/charges", charge_of(), "k-1") for _ in range(12)))
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.json()["charge_id"] for answer in answers}) == 1
    assert await provider.sums() == (1, 2000, 0)


@pytest.mark.parametrize("other", [{"amount": 2001}, {"order_id": "o-2"}])
async def test_the_same_key_for_something_else_is_refused(provider: ProviderProcess, other: dict[str, Any]) -> None:
    await charged(provider)
    answer = await provider.post("/charges", charge_of(**other), "k-1")
    assert (answer.status_code, answer.json()["code"]) == (422, "key_reused")
    assert await provider.sums() == (1, 2000, 0)


async def test_a_void_gives_all_back_once_and_bars_the_key(provider: ProviderProcess) -> None:
    charge_id = await charged(provider)
    first = await provider.post("/charges/void", {"key": "k-1"})
    again = await provider.post("/charges/void", {"key": "k-1"})
    assert first.json() == again.json() == {"key": "k-1", "charge_id": charge_id, "refunded": EUR_20}
    late = await provider.post("/charges", charge_of(), "k-1")
    assert (late.status_code, late.json()["code"]) == (409, "voided")
    assert (await provider.get("/charges/k-1"))["status"] == "VOIDED"
    assert await provider.sums() == (1, 2000, 2000)


async def test_a_key_that_was_voided_before_it_came_is_never_charged(provider: ProviderProcess) -> None:
    void = await provider.post("/charges/void", {"key": "k-1"})
    assert void.json() == {"key": "k-1", "charge_id": None, "refunded": None}
    late = await provider.post("/charges", charge_of(), "k-1")
    assert (late.status_code, late.json()["code"]) == (409, "voided")
    assert (await provider.get("/ledger"))["tombstones"] == 1
    assert await provider.sums() == (0, 0, 0)


async def test_a_charge_and_its_void_at_once_never_leave_money_taken(provider: ProviderProcess) -> None:
    for number in range(20):
        key = f"k-{number}"
        charge, _ = await asyncio.gather(
            provider.post("/charges", charge_of(f"o-{number}"), key), provider.post("/charges/void", {"key": key})
        )
        assert charge.status_code in (201, 409)
    _, captured, refunded = await provider.sums()
    assert captured == refunded


async def test_a_refund_is_made_once_for_each_request(provider: ProviderProcess) -> None:
    charge_id = await charged(provider)
    first = await provider.post("/refunds", refund_of(charge_id, "r-1", 500))
    again = await provider.post("/refunds", refund_of(charge_id, "r-1", 500))
    assert first.status_code == 201
    assert first.json() == again.json()
    other = await provider.post("/refunds", refund_of(charge_id, "r-1", 600))
    assert (other.status_code, other.json()["code"]) == (422, "request_reused")
    assert await provider.sums() == (1, 2000, 500)


async def test_never_more_is_given_back_than_was_taken(provider: ProviderProcess) -> None:
    charge_id = await charged(provider)
    answers = await asyncio.gather(
        *(provider.post("/refunds", refund_of(charge_id, f"r-{number}", 700)) for number in range(6))
    )
    codes = sorted(answer.status_code for answer in answers)
    assert codes == [201, 201, 409, 409, 409, 409]
    void = await provider.post("/charges/void", {"key": "k-1"})
    assert void.json()["refunded"] == {"minor_units": 600, "currency": "EUR"}
    assert await provider.sums() == (1, 2000, 2000)


async def test_a_refund_of_an_unknown_charge_is_refused(provider: ProviderProcess) -> None:
    answer = await provider.post("/refunds", refund_of("ch_none", "r-1", 1))
    assert (answer.status_code, answer.json()["code"]) == (404, "unknown_charge")


@pytest.mark.parametrize("amount", [19.99, 0, -5, "20"])
async def test_an_amount_that_is_no_whole_positive_number_is_refused(provider: ProviderProcess, amount: object) -> None:
    body = {"order_id": "o-1", "amount": {"minor_units": amount, "currency": "EUR"}}
    answer = await provider.post("/charges", body, "k-1")
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid")


async def test_a_charge_without_a_key_is_refused(provider: ProviderProcess) -> None:
    answer = await provider.post("/charges", charge_of())
    assert answer.status_code == 422
    assert "idempotency-key" in answer.json()["sentence"]


async def test_a_body_that_is_too_large_is_refused(provider: ProviderProcess) -> None:
    answer = await provider.post("/charges", {**charge_of(), "filling": " " * 300_000}, "k-1")
    assert (answer.status_code, answer.json()["code"]) == (413, "too_large")
    assert await provider.sums() == (0, 0, 0)


async def test_a_decline_takes_nothing_and_is_remembered_under_its_key(provider: ProviderProcess) -> None:
    await provider.behave("decline", order_id="o-1", reason="expired_card")
    for _ in range(2):
        answer = await provider.post("/charges", charge_of(), "k-1")
        assert (answer.status_code, answer.json()["reason"]) == (402, "expired_card")
    void = await provider.post("/charges/void", {"key": "k-1"})
    assert void.json()["refunded"] is None
    assert await provider.sums() == (0, 0, 0)
    assert (await provider.get("/ledger"))["declined"] == 1


@pytest.mark.parametrize(("behaviour", "done"), [("error_before", 0), ("error_after", 1)])
async def test_an_error_comes_before_or_after_the_work_and_the_next_try_succeeds(
    provider: ProviderProcess, behaviour: str, done: int
) -> None:
    await provider.behave(behaviour, key="k-1")
    assert (await provider.post("/charges", charge_of(), "k-1")).status_code == 500
    assert await provider.sums() == (done, 2000 * done, 0)
    assert (await provider.post("/charges", charge_of(), "k-1")).status_code == 201
    assert await provider.sums() == (1, 2000, 0)


async def test_a_timeout_after_charging_has_charged(provider: ProviderProcess) -> None:
    await provider.behave("timeout_after", order_id="o-1")
    async with httpx.AsyncClient(base_url=provider.url, timeout=0.5) as client:
        with pytest.raises(httpx.ReadTimeout):
            await client.post("/charges", json=charge_of(), headers={"Idempotency-Key": "k-1"})
    assert await provider.sums() == (1, 2000, 0)
    await charged(provider)
    assert await provider.sums() == (1, 2000, 0)


async def test_a_late_answer_comes(provider: ProviderProcess) -> None:
    await provider.behave("late", order_id="o-1", delay_ms=300)
    began = asyncio.get_running_loop().time()
    await charged(provider)
    assert asyncio.get_running_loop().time() - began >= 0.3


async def test_trouble_can_be_made_for_voids_and_refunds(provider: ProviderProcess) -> None:
    charge_id = await charged(provider)
    await provider.behave("error_after", order_id="o-1", operation="refund")
    await provider.behave("error_before", order_id="o-1", operation="void", times=2)
    assert (await provider.post("/refunds", refund_of(charge_id, "r-1", 500))).status_code == 500
    assert (await provider.post("/refunds", refund_of(charge_id, "r-1", 500))).status_code == 201
    codes = [(await provider.post("/charges/void", {"key": "k-1"})).status_code for _ in range(3)]
    assert codes == [500, 500, 200]
    assert await provider.sums() == (1, 2000, 2000)


async def test_what_was_answered_survives_being_killed(provider: ProviderProcess) -> None:
    charge_id = await charged(provider)
    await provider.post("/charges/void", {"key": "k-2"})
    await provider.behave("error_before", key="k-3")
    await provider.behave("error_before", key="k-4")
    assert (await provider.post("/charges", charge_of("o-4"), "k-4")).status_code == 500
    await provider.kill()
    await provider.start()
    assert await charged(provider) == charge_id
    assert (await provider.post("/charges", charge_of("o-2"), "k-2")).status_code == 409
    assert (await provider.post("/charges", charge_of("o-3"), "k-3")).status_code == 500
    assert (await provider.post("/charges", charge_of("o-4"), "k-4")).status_code == 201


async def test_shares_given_at_the_start_hit_the_same_orders_and_only_once(
    empty_database_url: str, tmp_path: Path
) -> None:
    options = ["--decline", "0.2", "--error", "0.4", "--late", "0.4", "--late-ms", "1"]
    async with provider_running(empty_database_url, tmp_path, *options) as provider:
        first = [await provider.post("/charges", charge_of(f"o-{n}"), f"k-{n}") for n in range(40)]
        await provider.kill()
        await provider.start()
        again = [await provider.post("/charges", charge_of(f"o-{n}"), f"k-{n}") for n in range(40)]
        assert {answer.status_code for answer in first} == {201, 402, 500}
        assert {answer.status_code for answer in again} == {201, 402}
        declined = [answer.status_code == 402 for answer in first]
        assert [answer.status_code == 402 for answer in again] == declined
        charges, _, _ = await provider.sums()
        assert charges == 40 - sum(declined)


async def test_it_stops_at_once_and_cleanly_while_somebody_is_kept_waiting(provider: ProviderProcess) -> None:
    await provider.behave("timeout_after", order_id="o-1")
    waiting = asyncio.create_task(provider.post("/charges", charge_of(), "k-1"))

    async def has_charged() -> bool:
        return await provider.sums() == (1, 2000, 0)

    await eventually(has_charged, what="the charge is in the books")
    assert await provider.stop() == 0
    with suppress(httpx.HTTPError):  # it may be cut off, or told that something broke
        assert (await waiting).status_code == 500
    assert provider.said[-1] == "The provider has stopped.\n"
    assert "Traceback" not in provider.log.read_text()


async def test_its_books_can_be_read_with_sql(provider: ProviderProcess, empty_database_url: str) -> None:
    await charged(provider)
    connection = await asyncpg.connect(empty_database_url)
    try:
        row = await connection.fetchrow("SELECT order_id, amount, currency, status FROM provider.charges")
    finally:
        await connection.close()
    assert tuple(row) == ("o-1", 2000, "EUR", "CAPTURED")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--database", "mysql://x/y"], "is not a PostgreSQL URL"),
        (["--database", "postgresql://nobody@127.0.0.1:1/none"], "does not answer"),
        (["--decline", "0.7", "--late", "0.7"], "add up to 1"),
        ([], "No database was given"),
    ],
)
def test_what_cannot_be_started_says_so_in_a_sentence(options: list[str], sentence: str) -> None:
    done = processes.run(["services.provider", "--port", "0", *options], environment={"PATH": ""})
    assert done.code == 2
    assert sentence in done.err
    assert "Traceback" not in done.err


async def test_a_port_that_is_taken_says_so_in_a_sentence(provider: ProviderProcess, empty_database_url: str) -> None:
    command = ["services.provider", "--port", str(provider.port), "--database", empty_database_url]
    done = await processes.run_async(command)
    assert done.code == 2
    assert "Choose another --port" in done.err
