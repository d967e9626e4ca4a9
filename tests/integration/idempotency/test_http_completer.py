"""What was abandoned is gone on with by the completer: under the same key, for the same tenant, and fighting nobody."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from surefoot.idempotency import Completer, Housekeeping
from surefoot.telemetry.alerts import Alert, Alerts
from tests.idempotency_provider import Charged
from tests.integration.idempotency.http_ground import REPLAYED, Ground, ground, new_key
from tests.integration.idempotency.scripted_provider import ScriptedProvider, raises
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow

QUICK = {"retry_first": "PT0.05S", "complete_every": "PT0.05S", "grace": "PT0S"}


class Heard(Alerts):
    """Alerts, for a test to look at."""

    def __init__(self) -> None:
        super().__init__()
        self.codes: list[str] = []

    async def raise_alert(self, alert: Alert) -> None:
        self.codes.append(alert.code)


@asynccontextmanager
async def completing(there: Ground, alerts: Alerts | None = None) -> AsyncIterator[None]:
    stop = asyncio.Event()
    running = asyncio.create_task(Completer(there.app, there.store, there.settings, alerts=alerts).run(stop))
    try:
        yield
    finally:
        stop.set()
        await running


async def _is_settled(there: Ground, resource: str) -> bool:
    return bool((await there.state(resource))["state"] == "COMPLETED")


async def test_an_unknown_outcome_is_found_out_without_the_client(database_url: str) -> None:
    provider = ScriptedProvider(raises(ConnectionResetError()), raises(TimeoutError()))
    async with ground(database_url, provider=provider, **QUICK) as there:
        key = new_key()
        unknown = await there.post("/outside", key)
        assert unknown.status_code == 504
        resource = unknown.json()["resource"]
        async with completing(there):
            await eventually(lambda: _is_settled(there, resource), what="the completer finds out")
        answer = await there.post("/outside", key)
        assert (answer.status_code, answer.headers[REPLAYED]) == (201, "true")
        assert answer.json()["id"] == resource
        assert len(provider.keys) == 3
        assert len(provider.charges) == 1
        (pending,) = await there.rows("SELECT closed_at, calls FROM surefoot.pending_calls")
        assert pending["closed_at"] is not None
        assert pending["calls"] == 3


async def test_a_request_whose_process_died_is_finished_from_its_recovery_point(database_url: str) -> None:
    """The first server stops in the middle of the call, as if it had died: its lease runs out."""
    never = asyncio.Event()

    async def dies() -> Charged:
        await never.wait()
        raise AssertionError("it died")

    async def has_called() -> bool:
        return bool(provider.keys)

    provider = ScriptedProvider(dies)
    short = {"lease": "PT0.5S", "renew_every": "PT0.4S"}
    async with ground(database_url, provider=provider, **QUICK, **short) as there:
        key = new_key()
        dying = asyncio.create_task(there.post("/outside", key))
        await eventually(has_called, what="the provider is called")
        (row,) = await there.rows("SELECT resource FROM surefoot.idempotency_keys")
        # The lease is taken from it, so that it is not renewed: that is what a dead process looks like from outside.
        await there.rows("UPDATE surefoot.idempotency_keys SET leased_at = now() - interval '1 hour' RETURNING 1")
        async with completing(there):
            await eventually(lambda: _is_settled(there, row["resource"]), what="the completer goes on with it")
        phases = await there.rows("SELECT name FROM surefoot.idempotency_phases ORDER BY at")
        assert [phase["name"] for phase in phases] == ["created", "finished"]
        assert len(provider.charges) == 1
        answer = await there.post("/outside", key)
        assert (answer.status_code, answer.json()["id"]) == (201, row["resource"])
        never.set()
        late = await dying
        assert late.content == answer.content


async def test_a_request_that_is_worked_on_is_left_alone(database_url: str) -> None:
    may_answer = asyncio.Event()

    async def waits() -> Charged:
        await may_answer.wait()
        return next(iter(provider.charges.values()))

    async def was_renewed() -> bool:
        (row,) = await there.rows(
            "SELECT lease_until > leased_at + interval '0.7 seconds' FROM surefoot.idempotency_keys"
        )
        return bool(row[0])

    async def has_called() -> bool:
        return bool(provider.keys)

    provider = ScriptedProvider(waits)
    short = {"lease": "PT0.6S", "renew_every": "PT0.1S"}
    async with ground(database_url, provider=provider, **QUICK, **short) as there:
        async with completing(there):
            working = asyncio.create_task(there.post("/outside", new_key()))
            await eventually(has_called, what="the provider is called")
            await eventually(was_renewed, what="the lease is renewed")
            may_answer.set()
            assert (await working).status_code == 201
        assert len(provider.keys) == 1


async def test_what_the_app_refuses_when_it_is_made_again_is_told_in_the_end(database_url: str) -> None:
    """The route is gone, after a deployment: nobody may take that for an answer."""
    provider = ScriptedProvider(raises(ConnectionResetError()))
    async with ground(database_url, provider=provider, **QUICK) as there:
        key = new_key()
        unknown = await there.post("/outside", key)
        await there.rows("UPDATE surefoot.idempotency_keys SET attempts = 9, due_at = now() RETURNING 1")
        heard = Heard()

        async def nothing_there(scope, receive, send):  # type: ignore[no-untyped-def]
            await send({"type": "http.response.start", "status": 404, "headers": []})
            await send({"type": "http.response.body", "body": b""})

        completer = Completer(nothing_there, there.store, there.settings, alerts=heard)
        assert await completer.start_overdue() == 1
        await completer.settled()
        assert heard.codes == ["idempotency_exhausted"]
        row = await there.state(unknown.json()["resource"])
        assert (row["state"], row["outcome_unknown"]) == ("FAILED_RETRY", True)
        assert "404" in row["error"]


async def test_several_completers_make_a_request_once(database_url: str) -> None:
    provider = ScriptedProvider(raises(ConnectionResetError()))
    async with ground(database_url, provider=provider, **QUICK) as there:
        await there.post("/outside", new_key())
        await there.rows("UPDATE surefoot.idempotency_keys SET due_at = now() RETURNING 1")
        completers = [Completer(there.app, there.store, there.settings) for _ in range(4)]
        await asyncio.gather(*(completer.start_overdue() for completer in completers))
        await asyncio.gather(*(completer.settled() for completer in completers))
        assert len(provider.keys) == 2


async def test_who_waits_is_given_what_the_completer_found(database_url: str) -> None:
    may_answer = asyncio.Event()

    async def waits() -> Charged:
        await may_answer.wait()
        return next(iter(provider.charges.values()))

    async def is_called_again() -> bool:
        return len(provider.keys) == 2

    provider = ScriptedProvider(raises(ConnectionResetError()), waits)
    async with ground(database_url, provider=provider, **QUICK) as there:
        key = new_key()
        await there.post("/outside", key)
        async with completing(there):
            await eventually(is_called_again, what="the completer calls")
            waiting = asyncio.create_task(there.post("/outside", key))
            may_answer.set()
            answer = await waiting
        assert (answer.status_code, answer.headers[REPLAYED]) == (201, "true")
        assert len(provider.keys) == 2


async def test_housekeeping_tells_of_what_is_stuck_and_of_calls_without_an_answer(database_url: str) -> None:
    provider = ScriptedProvider(raises(ConnectionResetError()))
    async with ground(database_url, provider=provider) as there:
        await there.post("/outside", new_key())
        heard = Heard()
        housekeeping = Housekeeping(there.store, there.settings, alerts=heard)
        assert (await housekeeping.watch()).stuck == 0
        assert heard.codes == []
        await there.rows("UPDATE surefoot.pending_calls SET created_at = now() - interval '1 minute' RETURNING 1")
        await there.rows(
            "UPDATE surefoot.idempotency_keys SET state = 'IN_FLIGHT', lease_until = now() - interval '2 minutes' "
            "RETURNING 1"
        )
        standing = await housekeeping.watch()
        assert standing.stuck == 1
        assert standing.oldest_pending_s == pytest.approx(60, abs=30)
        await housekeeping.watch()
        assert heard.codes == ["idempotency_stuck", "idempotency_pending_call"], "said once, not every few seconds"


async def test_housekeeping_expires_and_reaps_what_is_old(database_url: str) -> None:
    async with ground(database_url, reap_batch=2) as there:
        for _ in range(5):
            await there.post("/local", new_key(), mark="m")
        await there.rows(
            "UPDATE surefoot.idempotency_keys SET replay_until = now() - interval '1 hour', "
            "gone_until = now() - interval '1 hour' RETURNING 1"
        )
        stop = asyncio.Event()
        running = asyncio.create_task(Housekeeping(there.store, there.settings).run(stop))

        async def is_empty() -> bool:
            return await there.rows("SELECT 1 FROM surefoot.idempotency_keys") == []

        await eventually(is_empty, what="old keys are reaped")
        stop.set()
        with suppress(asyncio.CancelledError):
            await running
        assert await there.effects("m") == 5
