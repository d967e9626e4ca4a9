"""A provider that may have charged is never forgotten, even if the handler ignores what it was told.

An outcome that is not known is answered as such (504) until a later attempt, under the same key, has found it out.
"""

import asyncio
from contextlib import suppress
from typing import Any

import asyncpg
import httpx
import pytest
from fastapi import FastAPI, HTTPException
from starlette.middleware import Middleware
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from surefoot.idempotency import Idempotent, PhaseMisuse, ProviderBusy, Store, Tx, idempotent
from tests.support.idempotency.apps import (
    SETTINGS,
    Bank,
    Turn,
    answers,
    app_around,
    breaks,
    hangs,
    paying,
    until_it_hangs,
)
from tests.support.idempotency.http_harness import REPLAYED, metric, new_key, served
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow

UNKNOWN = "/problems/idempotency/outcome-unknown"
LEASES_END = "UPDATE surefoot.idempotency_keys SET lease_until = now() - interval '1 minute' WHERE state = 'IN_FLIGHT'"


async def write_down(tx: Tx, answer: str) -> str:
    return answer


def assert_found_out(bank: Bank, first: httpx.Response, *later: httpx.Response) -> None:
    """The first answer says that the outcome is not known, and the last one what the one charge came to."""
    assert (first.status_code, first.json()["type"]) == (504, UNKNOWN)
    assert later[-1].status_code < 300
    assert later[-1].json() in (f"paid under {bank.calls[0]}", {"said": f"paid under {bank.calls[0]}"})
    assert len(bank.charges) == 1


# -- calls that are cut short -----------------------------------------------------------------------------------------


class Impatient:
    """Ends what takes too long, as some middleware does, and says so."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with until_it_hangs():
                await self._app(scope, receive, send)
        except TimeoutError:
            await JSONResponse({"said": "it takes too long"}, 503)(scope, receive, send)


@pytest.mark.parametrize(("status", "on_failure"), [(201, "rerun"), (402, "replay"), (503, "replay")])
async def test_a_call_that_the_handler_itself_cuts_short_has_an_unknown_outcome(
    store: Store, status: int, on_failure: Any
) -> None:
    app, bank = app_around(store), Bank([hangs])

    @app.post("/")
    @idempotent(effect="outside", on_failure=on_failure)
    async def pay(once: Idempotent) -> JSONResponse:
        try:
            async with until_it_hangs():
                paid = await once.call("charge", bank.charge)
        except TimeoutError:
            return JSONResponse({"said": "it takes too long"}, status)
        return JSONResponse({"said": paid}, 201)

    assert_found_out(bank, *await answers(app, 2))


async def test_a_call_that_a_middleware_cuts_short_has_an_unknown_outcome(store: Store) -> None:
    bank = Bank([hangs])
    app = paying(store, bank)
    app.user_middleware.append(Middleware(Impatient))
    assert_found_out(bank, *await answers(app, 2))


@pytest.mark.parametrize(("how", "on_failure"), [("shielded", "rerun"), ("not awaited", "replay")])
async def test_a_call_that_is_still_under_way_when_the_handler_answers_has_an_unknown_outcome(
    store: Store, how: str, on_failure: Any
) -> None:
    goes_on = asyncio.Event()
    app, bank = app_around(store), Bank([goes_on.wait])
    calls: list[asyncio.Task[str]] = []

    @app.post("/")
    @idempotent(effect="outside", on_failure=on_failure)
    async def pay(once: Idempotent) -> JSONResponse:
        calls.append(asyncio.create_task(once.call("charge", bank.charge)))
        if how == "not awaited" and once.attempt == 1:
            await bank.called.wait()
            return JSONResponse({"said": "it will be fine"}, 201)
        try:
            async with asyncio.timeout(0.2 if once.attempt == 1 else None):
                return JSONResponse({"said": await asyncio.shield(calls[-1])}, 201)
        except TimeoutError:
            return JSONResponse({"said": "declined"}, 402)

    assert_found_out(bank, *await answers(app, 2))
    goes_on.set()
    await asyncio.gather(*calls, return_exceptions=True)


async def test_a_call_that_begins_when_the_handler_has_answered_is_not_made(
    store: Store, connection: asyncpg.Connection
) -> None:
    """Not even while its answer is being stored, for which the row is held here."""
    app, bank = app_around(store), Bank()
    given: list[Idempotent] = []
    is_held = asyncio.Event()

    @app.post("/")
    @idempotent(effect="outside")
    async def pay(once: Idempotent) -> str:
        given.append(once)
        await once.phase("written", write_down, "")
        await connection.execute("BEGIN; SELECT 1 FROM surefoot.idempotency_keys FOR UPDATE")
        is_held.set()
        return "it will be fine"

    async def is_being_stored() -> bool:
        return bool(await connection.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"))

    asked = asyncio.create_task(answers(app, 1))
    await is_held.wait()
    await eventually(is_being_stored, what="the answer is being stored")
    with pytest.raises(PhaseMisuse, match="had been answered"):
        await given[0].call("charge", bank.charge)
    await connection.execute("COMMIT")
    assert (await asked)[0].status_code == 200
    assert bank.calls == []


# -- what a provider says ---------------------------------------------------------------------------------------------


async def test_a_provider_that_has_our_call_in_flight_means_in_flight(store: Store) -> None:
    async def is_busy() -> None:
        raise ProviderBusy

    bank = Bank([is_busy])
    busy, done = await answers(paying(store, bank), 2)
    assert (busy.status_code, busy.json()["type"]) == (409, "/problems/idempotency/in-flight")
    assert "retry-after" in busy.headers
    assert (done.status_code, len(bank.calls), len(bank.charges)) == (200, 2, 1)


async def test_after_an_unknown_outcome_no_other_provider_is_called(store: Store) -> None:
    """The first one may have charged: a handler that tries another one would charge twice."""
    app, bank, other = app_around(store), Bank([breaks]), Bank()

    @app.post("/")
    @idempotent(effect="outside")
    async def pay(once: Idempotent) -> str:
        try:
            return await once.call("charge", bank.charge)
        except Exception:
            return await once.call("charge elsewhere", other.charge)

    assert_found_out(bank, *await answers(app, 2))
    assert other.calls == []


async def test_a_handler_that_goes_on_although_it_lost_its_claim_calls_no_provider(
    store: Store, connection: asyncpg.Connection
) -> None:
    app, bank = app_around(store), Bank()

    @app.post("/")
    @idempotent(effect="outside")
    async def pay(once: Idempotent) -> str:
        await once.phase("written", write_down, "created")
        await connection.execute("UPDATE surefoot.idempotency_keys SET fence = fence + 1")  # as who takes over does
        with suppress(Exception):
            await once.phase("written again", write_down, "created")
        return await once.call("charge", bank.charge)

    (answer,) = await answers(app, 1)
    assert (answer.status_code, answer.json()["type"]) == (409, "/problems/idempotency/in-flight")
    assert bank.calls == []


async def test_a_call_is_made_again_unless_its_answer_was_committed(store: Store) -> None:
    """One that is not JSON cannot be kept, and is asked for again under the same key."""
    app, calls = app_around(store), []
    bank = Bank()

    async def authorize(*, key: str) -> httpx.Response:
        calls.append(key)
        return httpx.Response(200, text="h_1")

    @app.post("/")
    @idempotent(effect="outside")
    async def pay(once: Idempotent) -> str:
        paid = await once.call("charge", bank.charge)
        hold = await once.call("authorize", authorize)
        await once.phase("held", write_down, hold.text)
        if once.attempt == 1:
            raise RuntimeError("not yet")
        return f"{paid} and {hold.text}"

    first, second = await answers(app, 2)
    assert (first.status_code, second.json()) == (500, f"paid under {bank.calls[0]} and h_1")
    assert len(bank.calls) == 1
    assert len(calls) == 2
    assert len(set(calls)) == 1


async def test_every_call_but_the_first_of_all_is_in_the_history_before_it_is_made(
    store: Store, connection: asyncpg.Connection
) -> None:
    """Without that, a process that dies in it leaves no doubt: the phase in between was committed after all calls that
    are known."""
    app, known = app_around(store), []

    async def capture(*, key: str) -> str:
        rows = await connection.fetch("SELECT details->>'name' FROM surefoot.idempotency_history WHERE what = 'called'")
        known.append(sorted(row[0] for row in rows))
        if len(known) == 1:
            raise ConnectionResetError("the bank went away")
        return "captured"

    @app.post("/")
    @idempotent(effect="outside")
    async def pay(once: Idempotent) -> str:
        await once.call("authorise", Bank().charge)
        await once.phase("authorised", write_down, "")
        return await once.call("capture", capture)

    assert [answer.status_code for answer in await answers(app, 2)] == [504, 200]
    assert known == [["authorise", "capture"], ["authorise", "capture", "capture"]]


async def test_tried_too_often_it_is_left_to_people_and_goes_on_slowly(
    store: Store, connection: asyncpg.Connection
) -> None:
    app, bank = app_around(store), Bank([breaks, breaks])

    @app.post("/")
    @idempotent(effect="outside", attempts=2)
    async def pay(once: Idempotent) -> str:
        return await once.call("charge", bank.charge)

    told = metric("exhausted_total", route="POST /")
    assert [answer.status_code for answer in await answers(app, 3)] == [504, 504, 504]
    assert metric("exhausted_total", route="POST /") - told == 1, "people are told once"
    row = await connection.fetchrow(
        "SELECT attempts, outcome_unknown, (due_at - now()) / $1 AS rests FROM surefoot.idempotency_keys",
        SETTINGS.retry_longest.total_seconds(),
    )
    assert (row["attempts"], row["outcome_unknown"]) == (2, True)
    assert row["rests"].total_seconds() == pytest.approx(1, abs=0.2)
    history = await connection.fetch("SELECT what FROM surefoot.idempotency_history")
    assert [line["what"] for line in history].count("exhausted") == 1


# -- a refusal does not answer for a call whose outcome is in doubt ---------------------------------------------------


async def test_a_refusal_does_not_answer_for_a_call_that_was_answered_and_went_no_further(store: Store) -> None:
    app, bank = app_around(store), Bank()

    @app.post("/")
    @idempotent(effect="outside")
    async def pay(once: Idempotent) -> str:
        if once.attempt == 2:
            raise HTTPException(409, "not any more")
        paid = await once.call("charge", bank.charge)
        if once.attempt == 1:
            raise RuntimeError("it charged, and that is not written down")
        return paid

    first, *later = await answers(app, 3)
    assert first.status_code == 500
    assert_found_out(bank, *later)


@pytest.mark.parametrize("is_phase_between", [False, True])
async def test_a_refusal_behind_the_first_call_does_not_answer_for_the_second(
    store: Store, is_phase_between: bool
) -> None:
    """The phases are of later attempts, which had made the first call again and not the second."""
    app, bank, other = app_around(store), Bank(), Bank([breaks])

    @app.post("/")
    @idempotent(effect="outside")
    async def pay(once: Idempotent) -> str:
        await once.call("authorise", bank.charge)
        if once.attempt == 2 and is_phase_between:
            await once.phase("looked", write_down, "")
            raise RuntimeError("not now")
        if once.attempt == 3 and is_phase_between:
            await once.phase("looked again", write_down, "")
        if once.attempt in (2, 3):
            raise HTTPException(409, "not any more")
        return await once.call("capture", other.charge)

    found = await answers(app, 4)
    assert [answer.status_code for answer in found] == [504, 500 if is_phase_between else 504, 504, 200]
    assert_found_out(other, *found)
    assert len(bank.charges) == 1


@pytest.mark.parametrize("how", ["raises", "500", "too large"])
async def test_a_failure_that_is_replayed_does_not_answer_for_a_call_whose_outcome_is_in_doubt(
    store: Store, how: str
) -> None:
    app, bank = app_around(store), Bank([breaks])

    @app.post("/")
    @idempotent(effect="outside", on_failure="replay")
    async def pay(once: Idempotent) -> Any:
        if once.attempt == 2:
            if how == "raises":
                raise RuntimeError("not now")
            if how == "500":
                raise HTTPException(500, "not now")
            return JSONResponse("x" * (2 * 1024 * 1024), 422)
        return await once.call("charge", bank.charge)

    found = await answers(app, 3)
    assert found[1].status_code == 504
    assert_found_out(bank, *found)


@pytest.mark.parametrize(("how", "refusal", "told"), [("unknown", 422, 504), ("unknown", 429, 429), ("died", 422, 504)])
async def test_a_phase_before_the_call_ends_no_doubt(
    store: Store, connection: asyncpg.Connection, how: str, refusal: int, told: int
) -> None:
    wakes_up = asyncio.Event()
    bank = Bank([breaks] if how == "unknown" else [wakes_up.wait])

    def moody() -> FastAPI:
        app = app_around(store)

        @app.post("/")
        @idempotent(effect="outside")
        async def pay(once: Idempotent) -> Any:
            await once.phase("written", write_down, "created")
            if once.attempt == 2:
                raise HTTPException(refusal, "not now")
            return await once.call("charge", bank.charge)

        return app

    async def is_noted() -> bool:
        return bool(
            await connection.fetchval("SELECT count(*) FROM surefoot.idempotency_history WHERE what = 'called'")
        )

    key = {"Idempotency-Key": new_key()}
    async with served(moody()) as client, served(moody()) as dying:
        late = asyncio.create_task(dying.post("/", headers=key))
        await bank.called.wait()
        await eventually(is_noted, what="the history knows of the call")
        if how == "died":
            await connection.execute(LEASES_END)
        else:
            await late
        assert (await client.post("/", headers=key)).status_code == told
        answer = await client.post("/", headers=key)
        assert (answer.status_code, answer.json()) == (200, f"paid under {bank.calls[0]}")
        wakes_up.set()
        await late
    assert len(bank.charges) == 1


@pytest.mark.parametrize("first", [(), (breaks,)])
async def test_a_refusal_that_was_written_down_is_the_answer_although_its_process_died(
    store: Store, connection: asyncpg.Connection, first: tuple[Turn, ...]
) -> None:
    """Doubt about a call ends where its answer was written down. The one that lost its claim gives that answer too."""
    bank = Bank(list(first))
    written, wakes_up = asyncio.Event(), asyncio.Event()

    def declining(*, sleeps: bool) -> FastAPI:
        app = app_around(store)

        @app.post("/", status_code=201)
        @idempotent(effect="outside")
        async def pay(once: Idempotent) -> None:
            said = await once.phase("written", write_down, await once.call("charge", bank.charge))
            if sleeps:
                written.set()
                await wakes_up.wait()
            raise HTTPException(402, f"declined: {said}")

        return app

    key = {"Idempotency-Key": new_key()}
    async with served(declining(sleeps=False)) as client, served(declining(sleeps=True)) as dying:
        for _ in first:
            assert (await dying.post("/", headers=key)).status_code == 504
        late = asyncio.create_task(dying.post("/", headers=key))
        await written.wait()
        await connection.execute(LEASES_END)
        answer = await client.post("/", headers=key)
        assert (answer.status_code, answer.json()) == (402, {"detail": f"declined: paid under {bank.calls[0]}"})
        wakes_up.set()
        for again in (await late, await client.post("/", headers=key)):
            assert (again.status_code, again.headers[REPLAYED], again.content) == (402, "true", answer.content)
    assert len(bank.calls) == 1 + len(first)
