"""A provider that may have charged is never forgotten, whatever a handler does with what it was told."""

import asyncio
from typing import Any

import pytest
from fastapi import HTTPException
from sqlalchemy import text
from starlette.middleware import Middleware
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from surefoot.idempotency import Idempotent, PhaseMisuse, Store, Tx, idempotent
from tests.integration.idempotency.http_ground import REPLAYED, new_key, served
from tests.integration.idempotency.review_ground import Bank, app_around, breaks, hangs
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow

EVERY_WAY = pytest.mark.parametrize("on_failure", ["rerun", "replay"])


@pytest.mark.parametrize("status", [201, 402, 503])
@EVERY_WAY
async def test_a_call_that_the_handler_itself_cuts_short_has_an_unknown_outcome(
    store: Store, status: int, on_failure: Any
) -> None:
    app, bank = app_around(store), Bank([hangs])

    @app.post("/")
    @idempotent(effect="outside", on_failure=on_failure)
    async def pay(once: Idempotent) -> JSONResponse:
        try:
            async with asyncio.timeout(0.1):
                paid = await once.call("charge", bank.charge)
        except TimeoutError:
            return JSONResponse({"said": "it takes too long"}, status)
        return JSONResponse({"said": paid}, 201)

    async with served(app) as client:
        key = {"Idempotency-Key": new_key()}
        first = await client.post("/", headers=key)
        assert (first.status_code, first.json()["type"]) == (504, "/problems/idempotency/outcome-unknown")
        second = await client.post("/", headers=key)
        assert (second.status_code, second.json()) == (201, {"said": f"paid under {bank.calls[0]}"})
    assert len(bank.charges) == 1


@EVERY_WAY
async def test_a_call_that_a_middleware_cuts_short_has_an_unknown_outcome(store: Store, on_failure: Any) -> None:
    app, bank = app_around(store), Bank([hangs])
    app.user_middleware.append(Middleware(Impatient))

    @app.post("/")
    @idempotent(effect="outside", on_failure=on_failure)
    async def pay(once: Idempotent) -> str:
        return await once.call("charge", bank.charge)

    async with served(app) as client:
        key = {"Idempotency-Key": new_key()}
        first = await client.post("/", headers=key)
        assert (first.status_code, first.json()["type"]) == (504, "/problems/idempotency/outcome-unknown")
        assert (await client.post("/", headers=key)).status_code == 200
    assert len(bank.charges) == 1


async def test_after_an_unknown_outcome_no_other_provider_is_called(store: Store) -> None:
    """The first one may have charged: whoever tries another then charges twice."""
    app, bank, other = app_around(store), Bank([breaks]), Bank()

    @app.post("/")
    @idempotent(effect="outside")
    async def pay(once: Idempotent) -> str:
        try:
            return await once.call("charge", bank.charge)
        except Exception:
            return await once.call("charge elsewhere", other.charge)

    async with served(app) as client:
        key = {"Idempotency-Key": new_key()}
        assert (await client.post("/", headers=key)).status_code == 504
        assert other.calls == []
        assert (await client.post("/", headers=key)).json() == f"paid under {bank.calls[0]}"
    assert (len(bank.charges), other.calls) == (1, [])


async def test_a_refusal_does_not_answer_for_a_call_that_was_answered_and_went_no_further(store: Store) -> None:
    app, bank = app_around(store), Bank()

    @app.post("/")
    @idempotent(effect="outside")
    async def pay(once: Idempotent) -> str:
        if once.attempt == 2:
            raise HTTPException(409, "not any more")
        paid = await once.call("charge", bank.charge)
        if once.attempt == 1:
            raise RuntimeError("it charged, and nobody has written it down")
        return paid

    async with served(app) as client:
        key = {"Idempotency-Key": new_key()}
        assert (await client.post("/", headers=key)).status_code == 500
        assert (await client.post("/", headers=key)).status_code == 504
        assert (await client.post("/", headers=key)).json() == f"paid under {bank.calls[0]}"
    assert len(bank.charges) == 1


@pytest.mark.parametrize("is_phase_between", [False, True])
async def test_a_refusal_behind_the_first_call_does_not_answer_for_the_second(
    store: Store, is_phase_between: bool
) -> None:
    """The phase is of the second attempt, which had made the first call again and not the second."""
    app, bank, other = app_around(store), Bank(), Bank([breaks])

    async def nothing(tx: Tx) -> None: ...

    @app.post("/")
    @idempotent(effect="outside")
    async def pay(once: Idempotent) -> str:
        await once.call("authorise", bank.charge)
        if once.attempt == 2 and is_phase_between:
            await once.phase("looked", nothing)
            raise RuntimeError("not now")
        if once.attempt in (2, 3):
            raise HTTPException(409, "not any more")
        return await once.call("capture", other.charge)

    async with served(app) as client:
        key = {"Idempotency-Key": new_key()}
        assert (await client.post("/", headers=key)).status_code == 504
        assert (await client.post("/", headers=key)).status_code == (500 if is_phase_between else 504)
        assert (await client.post("/", headers=key)).status_code == 504
        last = await client.post("/", headers=key)
        assert (last.status_code, last.json()) == (200, f"paid under {other.calls[0]}")
    assert (len(bank.charges), len(other.charges)) == (1, 1)


async def test_every_call_but_the_first_of_all_is_in_the_history_before_it_is_made(
    store: Store, connection: Any
) -> None:
    """Whoever dies in it leaves no doubt otherwise: the phase in between was committed after all that is known."""
    app, known = app_around(store), []

    async def capture(*, key: str) -> str:
        rows = await connection.fetch("SELECT details->>'name' FROM surefoot.idempotency_history WHERE what = 'called'")
        known.append(sorted(row[0] for row in rows))
        if len(known) == 1:
            raise ConnectionResetError("the bank went away")
        return "captured"

    async def written(tx: Tx) -> None: ...

    @app.post("/")
    @idempotent(effect="outside")
    async def pay(once: Idempotent) -> str:
        await once.call("authorise", Bank().charge)
        await once.phase("authorised", written)
        return await once.call("capture", capture)

    async with served(app) as client:
        key = {"Idempotency-Key": new_key()}
        assert (await client.post("/", headers=key)).status_code == 504
        assert (await client.post("/", headers=key)).status_code == 200
    assert known == [["authorise", "capture"], ["authorise", "capture", "capture"]]


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

    async with served(app) as client:
        key = {"Idempotency-Key": new_key()}
        assert (await client.post("/", headers=key)).status_code == 504
        assert (await client.post("/", headers=key)).status_code == 504
        third = await client.post("/", headers=key)
        assert (third.status_code, third.json()) == (200, f"paid under {bank.calls[0]}")
    assert len(bank.charges) == 1


async def test_a_phase_that_the_handler_cuts_short_leaves_nothing_for_the_next_one_to_commit(
    store: Store, connection: Any
) -> None:
    app, bank = app_around(store), Bank([breaks])

    async def write(tx: Tx) -> None:
        await (await tx.session.connection()).exec_driver_sql(
            "INSERT INTO effects SELECT coalesce(max(n), 0) + 1 FROM effects"
        )
        if not bank.calls:
            await hangs()

    @app.post("/")
    @idempotent(effect="outside")
    async def pay(once: Idempotent) -> str:
        try:
            async with asyncio.timeout(0.1):
                await once.phase("written", write)
        except TimeoutError:
            pass
        return await once.call("charge", bank.charge)

    async with served(app) as client:
        key = {"Idempotency-Key": new_key()}
        assert (await client.post("/", headers=key)).status_code == 504
        answer = await client.post("/", headers=key)
        assert answer.status_code == 200
        assert (await client.post("/", headers=key)).headers[REPLAYED] == "true"
    assert await connection.fetchval("SELECT count(*) FROM effects") == 1


class Impatient:
    """Ends what takes too long, as some middleware does, and says so."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with asyncio.timeout(0.2):
                await self._app(scope, receive, send)
        except TimeoutError:
            await JSONResponse({"said": "it takes too long"}, 503)(scope, receive, send)


@pytest.mark.parametrize("how", ["shielded", "not awaited"])
@EVERY_WAY
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

    async with served(app) as client:
        key = {"Idempotency-Key": new_key()}
        first = await client.post("/", headers=key)
        assert (first.status_code, first.json()["type"]) == (504, "/problems/idempotency/outcome-unknown")
        second = await client.post("/", headers=key)
        assert (second.status_code, second.json()) == (201, {"said": f"paid under {bank.calls[0]}"})
        goes_on.set()
        await asyncio.gather(*calls, return_exceptions=True)
    assert len(bank.charges) == 1


async def test_a_call_that_begins_when_the_handler_has_answered_is_not_made(store: Store, connection: Any) -> None:
    """Not even while its answer is being stored, for which the row is held here."""
    app, bank = app_around(store), Bank()
    given: list[Idempotent] = []
    is_held = asyncio.Event()

    @app.post("/")
    @idempotent(effect="outside")
    async def pay(once: Idempotent) -> str:
        given.append(once)
        await once.phase("written", nothing)
        await connection.execute("BEGIN; SELECT 1 FROM surefoot.idempotency_keys FOR UPDATE")
        is_held.set()
        return "it will be fine"

    async def is_being_stored() -> bool:
        return bool(await connection.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"))

    async with served(app) as client:
        asked = asyncio.create_task(client.post("/", headers={"Idempotency-Key": new_key()}))
        await is_held.wait()
        await eventually(is_being_stored, what="the answer is being stored")
        with pytest.raises(PhaseMisuse, match="had been answered"):
            await given[0].call("charge", bank.charge)
        await connection.execute("COMMIT")
        assert (await asked).status_code == 200
    assert bank.calls == []


async def nothing(tx: Tx) -> None:
    pass


async def test_a_phase_that_is_still_under_way_when_the_handler_answers_is_not_half_committed(
    store: Store, connection: Any
) -> None:
    app = app_around(store)
    goes_on, written = asyncio.Event(), asyncio.Event()
    phases: list[asyncio.Task[None]] = []

    async def write(tx: Tx) -> None:
        await tx.session.execute(text("INSERT INTO effects VALUES (1)"))
        written.set()
        await goes_on.wait()
        await tx.session.execute(text("INSERT INTO effects VALUES (2)"))

    @app.post("/")
    @idempotent(effect="outside")
    async def work(once: Idempotent) -> str:
        phases.append(asyncio.create_task(once.phase("written", write)))
        if once.attempt == 1 and len(phases) == 1:
            await written.wait()
        else:
            await phases[-1]
        return "done"

    async with served(app) as client:
        key = {"Idempotency-Key": new_key()}
        answer = await client.post("/", headers=key)
        assert answer.status_code >= 500
        assert await connection.fetchval("SELECT count(*) FROM effects") == 0
        goes_on.set()
        await asyncio.gather(*phases, return_exceptions=True)
        assert await connection.fetchval("SELECT count(*) FROM effects") == 0

        async def is_answered() -> bool:
            return (await client.post("/", headers=key)).status_code == 200

        await eventually(is_answered, what="the next one does it")
    assert await connection.fetchval("SELECT count(*) FROM effects") == 2
