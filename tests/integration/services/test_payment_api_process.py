"""`surefoot services payments` as a process: killed in the middle of a charge, stopped in the middle of one, or not
allowed to start."""

import asyncio
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from services.checks import charges, ledger
from services.settings import ServiceSettings
from tests.support import processes
from tests.support.services.payment_api_harness import ACME_KEY, EUR_20, authorised, new_key
from tests.support.services.payment_api_process import ApiProcess, api_process
from tests.support.services.provider_process import ProviderProcess, provider_running
from tests.support.waiting import eventually


@dataclass(slots=True)
class Scene:
    url: str
    provider: ProviderProcess
    api: ApiProcess

    async def charge(self, key: str) -> httpx.Response:
        async with httpx.AsyncClient(base_url=self.api.at, timeout=30, trust_env=False) as client:
            headers = {**authorised(), "Idempotency-Key": key}
            return await client.post("/v1/charges", json={"amount": EUR_20}, headers=headers)

    async def charge_and_die(self, key: str) -> None:
        with pytest.raises(httpx.TransportError):
            await self.charge(key)
        assert await self.api.died() == -9

    async def assert_sound(self) -> None:
        assert await charges.check(ServiceSettings(database=self.url)) == []
        assert await ledger.check(self.url) == []


@pytest.fixture
async def scene(database_url: str, tmp_path: Path) -> AsyncIterator[Scene]:
    async with provider_running(database_url, tmp_path) as provider:
        async with api_process(database_url, provider.url, tmp_path) as api:
            yield Scene(database_url, provider, api)


@pytest.mark.parametrize("point", ["idempotency.before_call", "idempotency.called"])
async def test_a_charge_whose_process_was_killed_is_finished_and_answered_once(scene: Scene, point: str) -> None:
    key = new_key()
    await scene.api.start(SUREFOOT_FAILPOINTS=f"{point}=kill")
    await scene.charge_and_die(key)
    await scene.api.start()

    async def answered() -> httpx.Response | None:
        answer = await scene.charge(key)
        assert answer.status_code in (201, 409), answer.text  # 409 until the dead one's lease is over
        return answer if answer.status_code == 201 else None

    first = await eventually(answered, what="the charge is answered")
    assert first is not None
    assert (await scene.charge(key)).content == first.content
    assert await scene.provider.sums() == (1, 2000, 0)
    await scene.assert_sound()


async def test_a_charge_that_nobody_asks_for_again_is_finished_all_the_same(scene: Scene) -> None:
    await scene.api.start(SUREFOOT_FAILPOINTS="idempotency.called=kill")
    await scene.charge_and_die(new_key())
    await scene.api.start()

    async def finished() -> bool:
        return await charges.check(ServiceSettings(database=scene.url)) == []

    await eventually(finished, what="the completer has finished the charge")
    assert await scene.provider.sums() == (1, 2000, 0)


async def test_a_charge_under_way_is_finished_before_the_process_stops(scene: Scene) -> None:
    await scene.provider.behave("late", share=1, delay_ms=1_500)
    await scene.api.start()
    charging = asyncio.create_task(scene.charge(new_key()))

    async def taken() -> bool:
        return await scene.provider.sums() == (1, 2000, 0)

    await eventually(taken, what="the provider has taken the money")
    assert not charging.done()
    code, said = await scene.api.stop()
    assert (code, (await charging).status_code) == (0, 201)
    assert "has stopped" in said
    await scene.assert_sound()


async def test_no_api_key_and_no_secret_is_in_the_log(scene: Scene) -> None:
    await scene.api.start()
    assert (await scene.charge(new_key())).status_code == 201
    await scene.api.stop()
    log = scene.api.log.read_text()
    assert "payments start" in log
    assert ACME_KEY not in log
    assert scene.api.secret not in log


@pytest.mark.parametrize(
    ("arguments", "environment", "words"),
    [
        ((), {}, "SUREFOOT_PAYMENT_API_KEYS is not set"),
        (("--open", "--host", "0.0.0.0"), {}, "could charge and refund"),  # noqa: S104
        (("--open",), {}, "no secret to do it with"),
        (("--open",), {"SUREFOOT_IDEMPOTENCY_SECRETS": '["short"]'}, "not a Fernet key"),
    ],
)
def test_what_it_cannot_run_with_is_told_in_a_sentence(
    database_url: str, arguments: tuple[str, ...], environment: dict[str, str], words: str
) -> None:
    done = processes.run(
        ["surefoot", "services", "payments", "--port", "0", *arguments],
        environment={**os.environ, "SUREFOOT_DATABASE": database_url, "NO_COLOR": "1", **environment},
    )
    assert done.code == 2
    assert words in done.err
    assert "Traceback" not in done.err
