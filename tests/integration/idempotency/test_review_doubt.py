"""Doubt about a call ends where its answer was written down: a refusal that rests on it is final, whoever died then."""

import asyncio
from typing import Any

import asyncpg
import pytest
from fastapi import FastAPI, HTTPException

from surefoot.idempotency import Idempotent, Store, Tx, idempotent
from tests.integration.idempotency.http_ground import REPLAYED, new_key, served
from tests.integration.idempotency.review_ground import Bank, Turn, app_around, breaks
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow

LEASES_END = "UPDATE surefoot.idempotency_keys SET lease_until = now() - interval '1 minute' WHERE state = 'IN_FLIGHT'"


async def write_down(tx: Tx, answer: str) -> str:
    return answer


def declining(store: Store, bank: Bank, *last: Turn) -> FastAPI:
    """Its bank says no, which is written down. What is in `last` happens before the answer is stored."""
    app, turns = app_around(store), list(last)

    @app.post("/", status_code=201)
    @idempotent(effect="outside")
    async def pay(once: Idempotent) -> None:
        said = await once.call("charge", bank.charge)
        said = await once.phase("written", write_down, said)
        if turns:
            await turns.pop(0)()
        raise HTTPException(402, f"declined: {said}")

    return app


@pytest.mark.parametrize("first", [(), (breaks,)])
async def test_a_refusal_that_was_written_down_is_the_answer_although_its_process_died(
    store: Store, connection: asyncpg.Connection, first: tuple[Turn, ...]
) -> None:
    bank = Bank(list(first))
    written, wakes_up = asyncio.Event(), asyncio.Event()

    async def sleeps() -> None:
        written.set()
        await wakes_up.wait()

    key = {"Idempotency-Key": new_key()}
    async with served(declining(store, bank)) as client, served(declining(store, bank, sleeps)) as dying:
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


@pytest.mark.parametrize("how", ["unknown", "died"])
async def test_a_phase_before_the_call_ends_no_doubt(store: Store, connection: asyncpg.Connection, how: str) -> None:
    wakes_up = asyncio.Event()
    bank = Bank([breaks] if how == "unknown" else [wakes_up.wait])

    def moody() -> FastAPI:
        app = app_around(store)

        @app.post("/")
        @idempotent(effect="outside")
        async def pay(once: Idempotent) -> Any:
            await once.phase("written", write_down, "created")
            if once.attempt == 2:
                raise HTTPException(422, "not now")
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
        assert (await client.post("/", headers=key)).status_code == 504
        answer = await client.post("/", headers=key)
        assert (answer.status_code, answer.json()) == (200, f"paid under {bank.calls[0]}")
        wakes_up.set()
        await late
    assert len(bank.charges) == 1
