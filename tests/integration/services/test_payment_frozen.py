"""A capture that freezes on its way to the provider and wakes after its undo: refused there, and here."""

import signal
from pathlib import Path

import pytest

from tests.support.consumer.processes import start_consumer
from tests.support.services.payment_harness import capture, key_of, payment_ground, reverse
from tests.support.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.promise("P2")]


async def test_a_charge_that_wakes_after_its_undo_takes_nothing(database_url: str, tmp_path: Path) -> None:
    async with payment_ground(database_url, tmp_path) as ground:
        do, undo = capture(), reverse()
        await ground.send(do)
        frozen = await start_consumer(
            "consumers.payment:payment",
            database_url,
            None,
            tmp_path / "frozen.log",
            failpoints="consumer.calling=stop",
            environment={"SUREFOOT_PAYMENT_PROVIDER_URL": ground.provider.url},
        )
        try:
            # Frozen after it has made sure that the partition is its own, and before the charge is sent.
            await frozen.stopped()
            async with ground.commands_running():
                await ground.settled([do], "PROCESSED")
                await ground.send(undo)
                await ground.settled([undo], "PROCESSED")
                frozen.signal(signal.SIGCONT)

                async def was_refused() -> bool:
                    return int((await ground.provider.get(f"/charges/{key_of(do)}"))["late"]) == 1

                await eventually(was_refused, what="the provider has refused the late charge")
        finally:
            frozen.signal(signal.SIGCONT)
            frozen.signal(signal.SIGTERM)
            await frozen.ended()
        assert await ground.types() == ["payment.captured", "payment.refunded"]
        assert await ground.payment() == ("REFUNDED", 2000, 2000)
        assert await ground.provider.sums() == (1, 2000, 2000)
