"""What was abandoned is gone on with by the completer, and what cannot be gone on with does not keep it from the rest.
The housekeeping tells of what is stuck, and removes what is old.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import asyncpg
import pytest
from cryptography.fernet import Fernet
from fastapi import FastAPI
from pydantic import SecretStr
from starlette.types import ASGIApp

from surefoot.idempotency import Completer, Housekeeping, Idempotent, Store, idempotent
from surefoot.telemetry.alerts import Alert, Alerts
from tests.support.idempotency.apps import SETTINGS, Bank, app_around, breaks, paying
from tests.support.idempotency.http_harness import REPLAYED, new_key, served
from tests.support.idempotency.reference_app import app_settings
from tests.support.idempotency.store_requests import age, answered, asked, kept
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow

QUICK = app_settings(retry_first="PT0.05S", complete_every="PT0.05S", grace="PT0S")
DUE = "UPDATE surefoot.idempotency_keys SET due_at = now() - interval '1 minute' WHERE due_at IS NOT NULL"
COMPLETED = "SELECT count(*) FROM surefoot.idempotency_keys WHERE state = 'COMPLETED'"


class Heard(Alerts):
    """Alerts, for a test to look at."""

    def __init__(self) -> None:
        super().__init__()
        self.codes: list[str] = []

    async def raise_alert(self, alert: Alert) -> None:
        self.codes.append(alert.code)


@asynccontextmanager
async def completing(app: ASGIApp, store: Store) -> AsyncIterator[None]:
    stop = asyncio.Event()
    running = asyncio.create_task(Completer(app, store, QUICK).run(stop))
    try:
        yield
    finally:
        stop.set()
        await running


async def is_completed(connection: asyncpg.Connection) -> bool:
    return bool(await connection.fetchval(COMPLETED))


async def test_an_unknown_outcome_is_found_out_without_the_client(store: Store, connection: asyncpg.Connection) -> None:
    bank = Bank([breaks, breaks])
    app, key = paying(store, bank, QUICK), {"Idempotency-Key": new_key()}
    async with served(app) as client:
        assert (await client.post("/", headers=key)).status_code == 504
        async with completing(app, store):
            await eventually(lambda: is_completed(connection), what="the completer finds out")
        answer = await client.post("/", headers=key)
    assert (answer.status_code, answer.headers[REPLAYED]) == (200, "true")
    assert (len(bank.calls), len(bank.charges)) == (3, 1)
    pending = await connection.fetchrow("SELECT closed_at IS NOT NULL, calls FROM surefoot.pending_calls")
    assert tuple(pending) == (True, 3)


async def test_who_waits_is_given_what_the_completer_found(store: Store) -> None:
    may_answer, calls_again = asyncio.Event(), asyncio.Event()

    async def waits() -> None:
        calls_again.set()
        await may_answer.wait()

    bank = Bank([breaks, waits])
    app, key = paying(store, bank, QUICK), {"Idempotency-Key": new_key()}
    async with served(app) as client:
        assert (await client.post("/", headers=key)).status_code == 504
        async with completing(app, store):
            await calls_again.wait()
            waiting = asyncio.create_task(client.post("/", headers=key))
            may_answer.set()
            answer = await waiting
    assert (answer.status_code, answer.headers[REPLAYED]) == (200, "true")
    assert len(bank.calls) == 2


async def test_a_request_under_a_mount_is_made_again_where_it_was_made(
    store: Store, connection: asyncpg.Connection
) -> None:
    bank = Bank([breaks])
    app, inner, key = app_around(store, QUICK), FastAPI(), {"Idempotency-Key": new_key()}

    @inner.post("/charges")
    @idempotent(effect="outside")
    async def pay(once: Idempotent) -> str:
        return await once.call("charge", bank.charge)

    app.mount("/v1", inner)
    async with served(app) as client:
        assert (await client.post("/v1/charges", headers=key)).status_code == 504
        async with completing(app, store):
            await eventually(lambda: is_completed(connection), what="the completer finds out")
        answer = await client.post("/v1/charges", headers=key)
    assert (answer.status_code, answer.headers[REPLAYED]) == (200, "true")
    assert (len(bank.calls), len(bank.charges)) == (2, 1)


# -- what cannot be gone on with --------------------------------------------------------------------------------------


async def test_what_the_app_refuses_when_it_is_made_again_is_told_in_the_end(
    store: Store, connection: asyncpg.Connection
) -> None:
    """The route is gone, after a deployment: that is no answer of the work."""
    heard = Heard()
    async with served(paying(store, Bank([breaks]))) as client:
        assert (await client.post("/", headers={"Idempotency-Key": new_key()})).status_code == 504
    await connection.execute("UPDATE surefoot.idempotency_keys SET attempts = 9")
    await connection.execute(DUE)
    completer = Completer(FastAPI(), store, SETTINGS, alerts=heard)
    assert await completer.start_overdue() == 1
    await completer.settled()
    assert heard.codes == ["idempotency_exhausted"]
    row = await connection.fetchrow("SELECT state::text, outcome_unknown, error FROM surefoot.idempotency_keys")
    assert (row["state"], row["outcome_unknown"]) == ("FAILED_RETRY", True)
    assert "404" in row["error"]


async def test_requests_that_cannot_be_decrypted_do_not_hide_those_behind_them(
    store: Store, database_url: str, connection: asyncpg.Connection
) -> None:
    """A secret was lost on the way: what was encrypted with it is told of, and what is newer is gone on with."""
    bank, heard = Bank([breaks] * 11), Heard()
    lost = SETTINGS.model_copy(update={"secrets": (SecretStr(Fernet.generate_key().decode()),)})
    async with Store(database_url, lost) as old, served(paying(old, bank)) as client:
        for _ in range(10):
            assert (await client.post("/", headers={"Idempotency-Key": new_key()})).status_code == 504
    app = paying(store, bank)
    async with served(app) as client:
        assert (await client.post("/", headers={"Idempotency-Key": new_key()})).status_code == 504
    await connection.execute(DUE)
    completer = Completer(app, store, SETTINGS, alerts=heard)

    async def has_gone_on() -> bool:
        await completer.start_overdue()
        await completer.settled()
        return await is_completed(connection)

    await eventually(has_gone_on, what="the one that can be decrypted is finished")
    for _ in range(20):
        await has_gone_on()
    assert len(heard.codes) == 10, "each is told once, and not every second"


async def test_a_handler_that_lost_its_protection_is_not_called_again_and_again(
    store: Store, connection: asyncpg.Connection
) -> None:
    runs, heard = [0], Heard()
    async with served(paying(store, Bank([breaks]))) as client:
        assert (await client.post("/", headers={"Idempotency-Key": new_key()})).status_code == 504
    app = app_around(store)

    @app.post("/")
    async def pay() -> str:
        runs[0] += 1
        return "paid"

    completer = Completer(app, store, SETTINGS, alerts=heard)
    for _ in range(5):
        await connection.execute(DUE)
        await completer.start_overdue()
        await completer.settled()
    assert runs == [1]
    assert heard.codes == ["idempotency_completer"]
    assert await connection.fetchval("SELECT outcome_unknown FROM surefoot.idempotency_keys")


async def test_a_handler_that_hangs_does_not_hold_the_completer_for_ever(
    database_url: str, connection: asyncpg.Connection
) -> None:
    times = {"lease": 0.4, "renew_every": 0.1, "longest_lease": 0.6, "call_timeout": 0.3, "grace": 0.0}
    settings = SETTINGS.model_copy(update={name: timedelta(seconds=value) for name, value in times.items()})
    bank, wakes_up = Bank([breaks] * 2), asyncio.Event()
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

            async def has_gone_on() -> bool:
                await completer.start_overdue()
                return await is_completed(connection)

            await eventually(has_gone_on, what="the one behind it is finished")
            wakes_up.set()
            await completer.settled()


# -- housekeeping -----------------------------------------------------------------------------------------------------


async def test_housekeeping_tells_of_what_is_stuck_and_of_calls_without_an_answer(
    store: Store, connection: asyncpg.Connection
) -> None:
    heard = Heard()
    housekeeping = Housekeeping(store, SETTINGS, alerts=heard)
    minute_old = "UPDATE surefoot.pending_calls SET created_at = now() - interval '1 minute'"
    left = await kept(store, asked("left to its client", "outside"))
    await store.fail(left, error="no", unknown=True, retry_in=None)
    await connection.execute(minute_old)
    assert (await housekeeping.watch()).oldest_pending_s == 0
    assert heard.codes == []
    claim = await kept(store)
    await age(connection, claim.asked, timedelta(minutes=1))
    assert (await store.standing()).stuck == 0, "its lease ran out half a minute ago"
    await connection.execute(minute_old)
    await age(connection, claim.asked, timedelta(minutes=1, seconds=30))
    standing = await housekeeping.watch()
    assert standing.stuck == 1
    assert standing.oldest_pending_s == pytest.approx(60, abs=30)
    await housekeeping.watch()
    assert heard.codes == ["idempotency_stuck", "idempotency_pending_call"], "said once, not every few seconds"


async def test_housekeeping_expires_and_reaps_what_is_old(store: Store, connection: asyncpg.Connection) -> None:
    for number in range(5):
        await answered(store, asked(f"key-{number}"))
        await age(connection, asked(f"key-{number}"), timedelta(hours=49))
    stop = asyncio.Event()
    running = asyncio.create_task(Housekeeping(store, app_settings(reap_batch=2)).run(stop))

    async def is_empty() -> bool:
        return not await connection.fetchval("SELECT EXISTS (SELECT FROM surefoot.idempotency_keys)")

    await eventually(is_empty, what="old keys are reaped")
    stop.set()
    await running
