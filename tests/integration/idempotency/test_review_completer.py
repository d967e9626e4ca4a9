"""What cannot be gone on with does not keep the completer from the rest."""

import asyncio
from datetime import timedelta

import asyncpg
import pytest
from cryptography.fernet import Fernet
from fastapi import FastAPI
from pydantic import SecretStr

from surefoot.idempotency import Completer, Idempotent, Store, idempotent
from surefoot.telemetry.alerts import Alert, Alerts
from tests.integration.idempotency.http_ground import new_key, served
from tests.integration.idempotency.review_ground import SETTINGS, Bank, app_around, breaks
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow

DUE = "UPDATE surefoot.idempotency_keys SET due_at = now() - interval '1 minute' WHERE state = 'FAILED_RETRY'"


class Heard(Alerts):
    def __init__(self) -> None:
        super().__init__()
        self.alerts: list[Alert] = []

    async def raise_alert(self, alert: Alert) -> None:
        self.alerts.append(alert)


def paying(store: Store, bank: Bank) -> FastAPI:
    app = app_around(store)

    @app.post("/")
    @idempotent(effect="outside")
    async def pay(once: Idempotent) -> str:
        return await once.call("charge", bank.charge)

    return app


async def test_requests_that_cannot_be_decrypted_do_not_hide_those_behind_them(
    store: Store, database_url: str, connection: asyncpg.Connection
) -> None:
    """A secret was lost on the way: what was encrypted with it is told of, and what is newer is gone on with."""
    bank = Bank([breaks] * 11)
    lost = SETTINGS.model_copy(update={"secrets": (SecretStr(Fernet.generate_key().decode()),)})
    async with Store(database_url, lost) as old, served(paying(old, bank)) as client:
        for _ in range(10):
            assert (await client.post("/", headers={"Idempotency-Key": new_key()})).status_code == 504
    app, heard = paying(store, bank), Heard()
    async with served(app) as client:
        assert (await client.post("/", headers={"Idempotency-Key": new_key()})).status_code == 504
        await connection.execute(DUE)
        completer = Completer(app, store, SETTINGS, alerts=heard)

        async def is_completed() -> bool:
            await completer.start_overdue()
            await completer.settled()
            return bool(
                await connection.fetchval("SELECT count(*) FROM surefoot.idempotency_keys WHERE state = 'COMPLETED'")
            )

        await eventually(is_completed, what="the one that can be decrypted is finished", within_s=5)
        for _ in range(20):
            await completer.start_overdue()
            await completer.settled()
    assert len(heard.alerts) == 10, "each is told once, and not every second"


async def test_a_handler_that_lost_its_protection_is_not_called_again_and_again(
    store: Store, connection: asyncpg.Connection
) -> None:
    bank, runs, heard = Bank([breaks]), [0], Heard()
    async with served(paying(store, bank)) as client:
        assert (await client.post("/", headers={"Idempotency-Key": new_key()})).status_code == 504
    app = app_around(store)

    @app.post("/")
    async def pay() -> str:
        runs[0] += 1
        return "paid"

    completer = Completer(app, store, SETTINGS, alerts=heard)
    for _ in range(5):
        await connection.execute(DUE.replace("WHERE", "WHERE due_at IS NOT NULL AND"))
        await completer.start_overdue()
        await completer.settled()
    assert runs == [1]
    assert [alert.code for alert in heard.alerts] == ["idempotency_completer"]
    assert await connection.fetchval("SELECT outcome_unknown FROM surefoot.idempotency_keys")


async def test_a_handler_that_hangs_does_not_hold_the_completer_for_ever(
    database_url: str, connection: asyncpg.Connection
) -> None:
    times = {"lease": 0.4, "renew_every": 0.1, "longest_lease": 0.6, "call_timeout": 0.3, "grace": 0.0}
    settings = SETTINGS.model_copy(update={name: timedelta(seconds=value) for name, value in times.items()})
    bank = Bank([breaks] * 2)
    wakes_up = asyncio.Event()
    async with Store(database_url, settings) as store:
        app = app_around(store, settings)

        @app.post("/")
        @idempotent(effect="outside")
        async def pay(once: Idempotent, hangs: bool) -> str:
            if hangs and once.attempt > 1:
                await wakes_up.wait()
            return await once.call("charge", bank.charge)

        async with served(app) as client:
            for hangs in (True, False):
                key = {"Idempotency-Key": new_key()}
                assert (await client.post(f"/?hangs={hangs}", headers=key)).status_code == 504
            await connection.execute(DUE)
            completer = Completer(app, store, settings, concurrency=1)

            async def is_completed() -> bool:
                await completer.start_overdue()
                return bool(
                    await connection.fetchval(
                        "SELECT count(*) FROM surefoot.idempotency_keys WHERE state = 'COMPLETED'"
                    )
                )

            await eventually(is_completed, what="the one behind it is finished", within_s=10)
            wakes_up.set()
            await completer.settled()
