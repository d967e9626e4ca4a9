"""Thousands of charges through a provider that times out after it has charged, answers 500 after it has, or too late;
on a network that doubles requests, from clients who send some of theirs twice. Nobody is charged twice, and everybody
gets one answer.

150 charges; 5,000 with SUREFOOT_SOAK.
"""

import asyncio
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from subprocess import PIPE

import asyncpg
import httpx
import pytest
from cryptography.fernet import Fernet

from services.checks import charges, ledger
from services.settings import ServiceSettings
from services.tables import create_tables
from surefoot.client import Answer, Client, Patience, new_key
from tests.support import processes
from tests.support.evidence import removed
from tests.support.services.payment_api_harness import authorised
from tests.support.services.provider_process import ProviderProcess, provider_running
from tests.support.services.unreliable_payment_api import NEW_KEYS
from tests.support.waiting import eventually

SOAK = bool(os.environ.get("SUREFOOT_SOAK"))
CHARGES = 5_000 if SOAK else 150
AT_ONCE = 24
SENT_TWICE_EVERY = 100
TROUBLE = ("--timeout-after-charge=0.05", "--error=0.1", "--late=0.05", "--late-ms=700", "--decline=0.03")
# An answer after 300 ms is as good as none; the completer is as quick as the clients.
QUICK = {
    "SUREFOOT_PAYMENT_ANSWER_WITHIN": "PT0.3S",
    "SUREFOOT_IDEMPOTENCY_RETRY_FIRST": "PT0.5S",
    "SUREFOOT_IDEMPOTENCY_COMPLETE_EVERY": "PT0.2S",
    "SUREFOOT_IDEMPOTENCY_GRACE": "PT0.2S",
    "SUREFOOT_IDEMPOTENCY_CALL_TIMEOUT": "PT5S",
}
PATIENCE = Patience(attempts=40, within=timedelta(seconds=120), base=timedelta(milliseconds=100))
FINAL = (201, 402)

pytestmark = [pytest.mark.crowd, pytest.mark.timeout(1_800 if SOAK else 300), pytest.mark.promise("P8")]


@dataclass(slots=True)
class Dark:
    """The API and the provider as processes, and what clients were answered."""

    url: str
    provider: ProviderProcess
    process: processes.AsyncChild
    at: str
    answers: dict[str, Answer] = field(default_factory=dict)
    attempts: Counter[int] = field(default_factory=Counter)

    async def charge_all(self, count: int) -> None:
        """Each under a key of its own, until it is answered for good."""
        waiting = iter(range(count))
        async with Client(self.at, headers=authorised(), patience=PATIENCE) as client:

            async def work() -> None:
                for number in waiting:
                    await self._charge(client, number)

            async with asyncio.TaskGroup() as group:
                for _ in range(AT_ONCE):
                    group.create_task(work())

    async def _charge(self, client: Client, number: int) -> None:
        key, body = new_key(), {"amount": {"minor_units": 100 + number, "currency": "EUR"}}
        times = 2 if number % SENT_TWICE_EVERY == 0 else 1
        answers = await asyncio.gather(*(client.post("/v1/charges", key=key, json=body) for _ in range(times)))
        assert len({(answer.status, answer.body) for answer in answers}) == 1
        self.attempts[answers[0].attempts] += 1
        self.answers[key] = answers[0]

    async def sent_again(self, key: str) -> Answer:
        """What whoever comes much later gets."""
        number = await self._amount(key) - 100
        async with Client(self.at, headers=authorised(), patience=PATIENCE) as client:
            body = {"amount": {"minor_units": 100 + number, "currency": "EUR"}}
            return await client.post("/v1/charges", key=key, json=body)

    async def _amount(self, key: str) -> int:
        told = self.answers[key].json()
        connection = await asyncpg.connect(self.url)
        try:
            query = "SELECT amount FROM payments.charges WHERE charge_id = $1"
            return int(await connection.fetchval(query, told.get("id") or told["charge_id"]))
        finally:
            await connection.close()

    async def found(self) -> set[str]:
        return {finding.violation for finding in await charges.check(ServiceSettings(database=self.url))}

    async def stop(self) -> int:
        """How many requests its network has doubled."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.stdout is not None
        said = await asyncio.wait_for(self.process.stdout.read(), 60)
        assert await self.process.wait() == 0
        return int(said)


@asynccontextmanager
async def dark(url: str, directory: Path, *arguments: str, trouble: tuple[str, ...] = TROUBLE) -> AsyncIterator[Dark]:
    await create_tables(url, "payment")
    await create_tables(url, "ledger")
    async with provider_running(url, directory, *trouble) as provider:
        secret = Fernet.generate_key().decode()
        environment = {
            **os.environ,
            **QUICK,
            "SUREFOOT_DATABASE": url,
            "SUREFOOT_PAYMENT_PROVIDER_URL": provider.url,
            "SUREFOOT_IDEMPOTENCY_SECRETS": f'["{secret}"]',
        }
        command = ("tests.support.services.unreliable_payment_api", *arguments)
        with (directory / "payments.log").open("ab") as log:
            process = await processes.start_async(command, environment=environment, stdout=PIPE, stderr=log)
        assert process.stdout is not None
        at = (await asyncio.wait_for(process.stdout.readline(), 60)).decode().strip()
        assert at, (directory / "payments.log").read_text()
        try:
            yield Dark(url, provider, process, at)
        finally:
            await processes.end(process)


async def test_nobody_is_charged_twice_and_everybody_gets_one_answer(database_url: str, tmp_path: Path) -> None:
    began = time.monotonic()
    async with dark(database_url, tmp_path) as scene:
        await scene.charge_all(CHARGES)
        took_s = time.monotonic() - began
        statuses = Counter(answer.status for answer in scene.answers.values())
        assert set(statuses) <= set(FINAL), statuses
        assert statuses.total() == CHARGES
        taken = [answer.json()["amount"]["minor_units"] for answer in scene.answers.values() if answer.ok]
        assert await scene.provider.sums() == (len(taken), sum(taken), 0)
        assert (await scene.provider.get("/ledger"))["charged_twice"] == 0
        assert await scene.found() == set()
        assert await ledger.check(database_url) == []
        for key in list(scene.answers)[:: max(1, CHARGES // 50)]:
            assert (await scene.sent_again(key)).body == scene.answers[key].body
        doubled = await scene.stop()
    in_trouble = CHARGES - scene.attempts[1]
    assert in_trouble > CHARGES // 20, "the provider was too well: nothing was tried"
    assert doubled > 0
    sys.stdout.write(
        f"{CHARGES} charges in {took_s:.0f} s: {statuses[201]} taken, {statuses[402]} declined, {in_trouble} asked for "
        f"more than once (at most {max(scene.attempts)} times), {doubled} requests doubled on the network\n"
    )


@pytest.mark.mutation
async def test_without_the_key_of_the_claim_the_checker_finds_money_that_was_taken_twice(
    database_url: str, tmp_path: Path
) -> None:
    removed("payment.claimed_key")
    async with dark(database_url, tmp_path, NEW_KEYS, trouble=("--timeout-after-charge=1",)) as scene:
        body = {"amount": {"minor_units": 100, "currency": "EUR"}}
        async with httpx.AsyncClient(base_url=scene.at, headers=authorised(), timeout=30, trust_env=False) as client:
            first = await client.post("/v1/charges", json=body, headers={"Idempotency-Key": new_key()})
        assert first.status_code == 504, first.text

        async def twice() -> bool:  # the completer asks again, and each time it is another charge for the provider
            return "charged_twice" in await scene.found()

        await eventually(twice, what="the checker finds a charge that was taken twice")
