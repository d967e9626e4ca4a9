"""The gateway against the provider itself, in all its moods, and while it is killed."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from services.payment.gateway import Barred, Charged, Declined, Voided
from services.payment.http_gateway import HttpGateway
from services.payment.settings import PaymentSettings
from surefoot.consumer import DependencyDown, Permanent, Transient
from surefoot.events import Money
from tests.support.services.provider_process import ProviderProcess, provider_running
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow
EUR_20 = Money.minor(2000, "EUR")


@pytest.fixture
async def provider(empty_database_url: str, tmp_path: Path) -> AsyncIterator[ProviderProcess]:
    async with provider_running(empty_database_url, tmp_path) as provider:
        yield provider


@pytest.fixture
async def gateway(provider: ProviderProcess) -> AsyncIterator[HttpGateway]:
    gateway = HttpGateway(PaymentSettings(provider_url=provider.url, answer_within=timedelta(seconds=1)))
    yield gateway
    await gateway.close()


async def charge(gateway: HttpGateway, key: str = "k-1", amount: Money = EUR_20) -> Charged | Declined | Barred:
    return await gateway.charge(key, "o-1", amount)


async def test_a_charge_and_its_repeat_and_its_void(gateway: HttpGateway, provider: ProviderProcess) -> None:
    first = await charge(gateway)
    assert isinstance(first, Charged)
    assert await charge(gateway) == first
    assert await gateway.void("k-1") == Voided(first.charge_id, EUR_20)
    assert await charge(gateway) == Barred()
    assert await provider.sums() == (1, 2000, 2000)


async def test_a_void_of_what_never_came_bars_it(gateway: HttpGateway, provider: ProviderProcess) -> None:
    assert await gateway.void("k-1") == Voided(None, None)
    assert await charge(gateway) == Barred()
    assert await provider.sums() == (0, 0, 0)


async def test_a_decline(gateway: HttpGateway, provider: ProviderProcess) -> None:
    await provider.behave("decline", order_id="o-1", reason="insufficient_funds")
    assert await charge(gateway) == Declined("insufficient_funds")


@pytest.mark.parametrize("behaviour", ["error_before", "error_after", "timeout_after"])
async def test_trouble_is_transient_and_the_repeat_charges_once(
    gateway: HttpGateway, provider: ProviderProcess, behaviour: str
) -> None:
    await provider.behave(behaviour, order_id="o-1")
    with pytest.raises(Transient):
        await charge(gateway)
    assert isinstance(await charge(gateway), Charged)
    assert await provider.sums() == (1, 2000, 0)


async def test_an_answer_that_is_late_but_in_time_counts(gateway: HttpGateway, provider: ProviderProcess) -> None:
    await provider.behave("late", order_id="o-1", delay_ms=200)
    assert isinstance(await charge(gateway), Charged)


async def test_an_answer_that_is_too_late_is_asked_for_again(gateway: HttpGateway, provider: ProviderProcess) -> None:
    await provider.behave("late", order_id="o-1", delay_ms=5000)
    with pytest.raises(Transient):
        await charge(gateway)
    assert isinstance(await charge(gateway), Charged)
    assert await provider.sums() == (1, 2000, 0)


async def test_another_amount_under_the_same_key_is_refused_for_good(gateway: HttpGateway) -> None:
    await charge(gateway)
    with pytest.raises(Permanent, match="key_reused"):
        await charge(gateway, amount=Money.minor(2100, "EUR"))


async def test_a_refund_is_made_once_and_never_too_much(gateway: HttpGateway, provider: ProviderProcess) -> None:
    charged = await charge(gateway)
    assert isinstance(charged, Charged)
    first = await gateway.refund("r-1", charged.charge_id, Money.minor(500, "EUR"))
    assert await gateway.refund("r-1", charged.charge_id, Money.minor(500, "EUR")) == first
    with pytest.raises(Permanent, match="exceeds_captured"):
        await gateway.refund("r-2", charged.charge_id, Money.minor(1501, "EUR"))
    assert await provider.sums() == (1, 2000, 500)


async def test_a_provider_killed_between_charge_and_answer_has_charged_once(
    gateway: HttpGateway, provider: ProviderProcess
) -> None:
    await provider.behave("timeout_after", order_id="o-1")
    asking = asyncio.create_task(charge(gateway))

    async def has_charged() -> bool:
        return await provider.sums() == (1, 2000, 0)

    await eventually(has_charged, what="the charge is in the books")
    await provider.kill()
    with pytest.raises(Transient):
        await asking
    with pytest.raises(DependencyDown):
        await charge(gateway)
    await provider.start()
    assert isinstance(await charge(gateway), Charged)
    assert await provider.sums() == (1, 2000, 0)
