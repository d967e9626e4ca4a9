"""Many payments through a provider with all its moods, killed on the way: at the end the books add up.

And with a protection taken out they do not, and the checker says which way."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from consumers.payment import payment_consumer
from services.checks.money import check, findings, read_books
from services.payment.gateway import Barred, Charged, Declined, Voided
from services.payment.http_gateway import HttpGateway
from services.payment.settings import PaymentSettings
from services.settings import ServiceSettings
from services.tables import create_tables
from surefoot.consumer import Retry
from surefoot.events import Event, Money
from tests.support.consumer.processes import consumer_running
from tests.support.evidence import removed
from tests.support.services.payment_harness import PaymentGround, capture, key_of, payment_ground, refund, reverse
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow
ORDERS = 60
TROUBLE = ("--decline", "0.15", "--timeout-after-charge", "0.1", "--late", "0.1", "--late-ms", "50", "--error", "0.3")
PATIENT = Retry(attempts=30, first=timedelta(milliseconds=20), longest=timedelta(milliseconds=100))
INSERT = """
    INSERT INTO orders.orders
        (order_id, checkout_session_id, customer_id, mode, status, total_minor, currency, lines, ship_to)
    VALUES ($1, $1, 'c-1', 'orchestrated', $2, 2000, 'EUR', '[]', '{}')
"""


@pytest.fixture
async def ground(database_url: str, tmp_path: Path) -> AsyncIterator[PaymentGround]:
    await create_tables(database_url, "order")
    async with payment_ground(database_url, tmp_path) as ground:
        yield ground


async def test_at_the_end_every_cent_is_where_it_belongs(database_url: str, tmp_path: Path) -> None:
    await create_tables(database_url, "order")
    async with payment_ground(database_url, tmp_path, *TROUBLE) as ground:
        numbers = range(ORDERS)
        captures = [capture(f"s-{n}", f"o-{n}") for n in numbers]
        undone = [reverse(f"s-{n}", f"o-{n}") for n in numbers if n % 3 == 0]
        await ground.send(*captures, *undone)
        async with ground.commands_running(retry=PATIENT):
            await asyncio.gather(ground.settled([*captures, *undone], "PROCESSED"), kill_once(ground))
            captured = {told["order_id"] for told in await ground.told() if told["type"] == "payment.captured"}
            kept = sorted(captured - {undo.data.order_id for undo in undone})
            returns = [refund(f"r-{order}", f"return:{order}", 700, order) for order in kept[::2]]
            await ground.send(*returns)
            await ground.settled(returns, "PROCESSED")
        for number in numbers:
            status = "PROCESSING" if f"o-{number}" in kept else "CANCELLED"
            await ground.connection.execute(INSERT, f"o-{number}", status)

        settings = ServiceSettings(database=database_url)
        assert await check(settings) == []
        assert 0 < len(kept) < ORDERS - len(undone)  # some were declined
        charges, taken, given_back = await ground.provider.sums()
        assert taken == 2000 * charges
        assert taken - given_back == 2000 * len(kept) - 700 * len(returns)

        await ground.connection.execute("UPDATE orders.orders SET status = 'CANCELLED' WHERE order_id = $1", kept[0])
        found = {finding.violation for finding in findings(await read_books(settings))}
        assert found == {"not_given_back", "unbalanced"}


class ForgetsItsKey(HttpGateway):
    """Asks for every charge under another key."""

    asked = 0

    async def charge(self, key: str, order_id: str, amount: Money) -> Charged | Declined | Barred:
        self.asked += 1
        return await super().charge(f"{key}:{self.asked}", order_id, amount)


class VoidsAnother(HttpGateway):
    """Voids by a key of its own, and not by that of the charge."""

    async def void(self, key: str) -> Voided:
        return await super().void(f"undo:{key}")


async def test_without_the_key_an_order_is_charged_twice_and_the_checker_says_so(ground: PaymentGround) -> None:
    do = capture()
    await ground.provider.behave("error_after", key=f"{key_of(do)}:1")
    removed("payment.charge_key")
    found = await found_with(ForgetsItsKey, ground, "PROCESSING", do)
    assert found == {"charged_twice", "unpaid", "unbalanced", "disagreement"}


async def test_without_the_charges_key_an_undo_keeps_the_money_and_the_checker_says_so(ground: PaymentGround) -> None:
    removed("payment.void_key")
    found = await found_with(VoidsAnother, ground, "CANCELLED", capture(), reverse())
    assert found == {"not_given_back", "unbalanced"}


async def found_with(
    weakened: type[HttpGateway], ground: PaymentGround, status: str, *commands: Event[Any]
) -> set[str]:
    """What the checker finds when these have been carried out by a gateway with a protection taken out."""
    gateway = weakened(PaymentSettings(provider_url=ground.provider.url))
    await ground.send(*commands)
    try:
        async with consumer_running(payment_consumer(gateway, retry=PATIENT), ground.url, ground.log):
            await ground.settled(commands, "PROCESSED")
    finally:
        await gateway.close()
    await ground.connection.execute(INSERT, "o-1", status)
    return {finding.violation for finding in await check(ServiceSettings(database=ground.url))}


async def kill_once(ground: PaymentGround) -> None:
    """When some have been charged, and others have not."""

    async def some_charged() -> bool:
        return (await ground.provider.sums())[0] >= ORDERS // 4

    await eventually(some_charged, what="a quarter has been charged")
    await ground.provider.kill()
    await ground.provider.start()
