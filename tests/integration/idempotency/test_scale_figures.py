"""The figures that docs/scale.md begins with are those of real rows."""

import hashlib
import re
from pathlib import Path

import asyncpg
import pytest

from surefoot.idempotency.store import FirstPhase, Store
from surefoot.idempotency.values import Answer, Asked, Effect, Note, StoredRequest
from tests.support.idempotency.store_requests import begun

pytestmark = pytest.mark.slow

PAGE = (Path(__file__).parents[3] / "docs" / "scale.md").read_text()
HEADERS = (("content-type", "application/json"),)
ANSWER = Answer(201, HEADERS, b"x" * 300)
CHARGE = "ch_" + "a" * 32
REQUESTS = 300


def figure(what: str, effect: Effect) -> float:
    """From the page's first table."""
    (columns,) = re.findall(rf"^\| {what} \| (\d+) \| (\d+) \|$", PAGE, re.MULTILINE)
    return float(columns[0 if effect == "local" else 1])


async def request(store: Store, effect: Effect, number: int) -> None:
    digest = hashlib.sha256(f"{effect} {number}".encode()).digest()
    asked = Asked("merchant-0001", digest, "POST /v1/charges", effect, digest, 1)
    async with await begun(store, asked) as begins:
        if effect == "local":
            await begins.finish(ANSWER, "COMPLETED")
            return
        minted = {"id": CHARGE, "created_at": "2025-01-01T00:00:00Z"}
        stored = StoredRequest("POST", "/v1/charges", "", HEADERS, b"x" * 200, "merchant-0001")
        first = FirstPhase("charge_created", {"result": {"id": CHARGE}})
        claim = await begins.keep(minted, CHARGE, "pk_" + "b" * 32, stored, first)
    await store.note(claim, Note("called", {"name": "capture"}))
    async with store.phase(claim, "finished") as unit:
        unit.result = {"result": {"id": CHARGE}, "calls": {}}
        unit.notes.append(Note("replied", {"name": "capture", "outcome": "answered", "took_ms": 120}))
    await store.complete(claim, ANSWER, "COMPLETED")


@pytest.mark.parametrize("effect", ["local", "outside"])
async def test_a_request_costs_what_the_page_says(store: Store, connection: asyncpg.Connection, effect: Effect) -> None:
    await connection.execute("CHECKPOINT")
    for number in range(50):  # every page there is has been changed once
        await request(store, effect, -number)
    before = await standing(connection)
    for number in range(1, REQUESTS + 1):
        await request(store, effect, number)
    transactions, wal = (after - first for after, first in zip(await standing(connection), before, strict=True))
    assert transactions // REQUESTS == figure("transaction ids", effect)  # autovacuum may have used a few
    assert wal / REQUESTS == pytest.approx(figure("bytes of WAL, without full-page images", effect), rel=0.25)

    keys = "SELECT avg(pg_column_size(k.*))::float FROM surefoot.idempotency_keys k"
    lines = "SELECT count(*)::float / $1, avg(pg_column_size(h.*))::float FROM surefoot.idempotency_history h"
    count, size = await connection.fetchrow(lines, REQUESTS + 50)
    assert count == figure("lines in the history", effect)
    assert size == pytest.approx(figure("bytes of such a line", effect), rel=0.1)
    answered = figure("bytes of the key's row with its answer", effect)
    assert await connection.fetchval(keys) == pytest.approx(answered, rel=0.1)  # the host's name is in it

    await connection.execute("UPDATE surefoot.idempotency_keys SET replay_until = now()")
    _, before_it_goes = await standing(connection)
    assert await store.expire(5000) == REQUESTS + 50
    _, expired_at = await standing(connection)
    expired = figure("bytes of it when the answer has expired", effect)
    assert await connection.fetchval(keys) == pytest.approx(expired, rel=0.15)

    await connection.execute("UPDATE surefoot.idempotency_keys SET gone_until = now()")
    _, before_it_is_gone = await standing(connection)
    assert await store.reap(5000) == REQUESTS + 50
    _, gone_at = await standing(connection)
    until_gone = (expired_at - before_it_goes + gone_at - before_it_is_gone) / (REQUESTS + 50)
    assert until_gone == pytest.approx(figure("bytes of WAL until the key is gone again", effect), rel=0.25)


async def standing(connection: asyncpg.Connection) -> tuple[int, int]:
    """Transaction ids that were used so far, and bytes of WAL."""
    row = await connection.fetchrow("""
        SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint,
            pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint""")
    return row[0], row[1]
