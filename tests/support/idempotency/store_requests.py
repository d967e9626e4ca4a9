"""What the tests of the store share: requests that are asked for, and a look at the tables."""

import hashlib
from datetime import timedelta
from typing import Any

import asyncpg
from cryptography.fernet import Fernet
from pydantic import SecretStr

from surefoot.idempotency.settings import IdempotencySettings, Route
from surefoot.idempotency.store import Begun, Store
from surefoot.idempotency.values import Answer, Asked, Claim, Effect, Found, StoredRequest
from tests.support.waiting import eventually

SECRET = Fernet.generate_key().decode()
SETTINGS = IdempotencySettings(secrets=(SecretStr(SECRET),))
LOCAL = Route(effect="local")
OUTSIDE = Route(effect="outside")
CREATED = Answer(201, (("content-type", "application/json"), ("location", "/v1/charges/1")), b'{"id": "ch_1"}')
DECLINED = Answer(402, (("content-type", "application/json"),), b'{"why": "declined"}')
REQUEST = StoredRequest(
    method="POST",
    path="/v1/charges",
    query="dry=0",
    headers=(("content-type", "application/json"),),
    body=b'{"amount": 100, "card": "4242"}\x00\xff',
    tenant="shop",
)
ROUTES: dict[Effect, Route] = {"local": LOCAL, "outside": OUTSIDE}


def asked(
    key: str = "first", effect: Effect = "local", *, body: bytes = b"100", tenant: str = "shop", version: int = 1
) -> Asked:
    return Asked(
        tenant=tenant,
        key_hash=hashlib.sha256(f"{tenant}\0{key}".encode()).digest(),
        route="POST /v1/charges",
        effect=effect,
        fingerprint=hashlib.sha256(body).digest(),
        fingerprint_version=version,
    )


async def begun(store: Store, wanted: Asked, route: Route | None = None) -> Begun:
    found = await store.begin(wanted, route or ROUTES[wanted.effect])
    assert isinstance(found, Begun), found
    return found


async def found(store: Store, wanted: Asked, route: Route | None = None) -> Found:
    result = await store.begin(wanted, route or ROUTES[wanted.effect])
    assert not isinstance(result, Begun), "it was claimed"
    return result


async def free(store: Store, wanted: Asked) -> Begun:
    """Whoever only looked at the key lets go of it a moment later."""

    async def begin() -> Begun | None:
        result = await store.begin(wanted, ROUTES[wanted.effect])
        return result if isinstance(result, Begun) else None

    result = await eventually(begin, what="the key can be claimed")
    assert result is not None
    return result


async def kept(store: Store, wanted: Asked | None = None, route: Route | None = None, **minted: Any) -> Claim:
    """A claim for an outside effect that is committed."""
    async with await begun(store, wanted or asked(effect="outside"), route) as begins:
        return await begins.keep(minted or {"id": "ch_1"}, "ch_1", "provider-key-1", REQUEST)


async def answered(store: Store, wanted: Asked, answer: Answer = CREATED) -> None:
    """A key with an answer, by a local or an outside route."""
    if wanted.effect == "outside":
        await store.complete(await kept(store, wanted), answer, "COMPLETED")
        return
    async with await begun(store, wanted) as begins:
        await begins.finish(answer, "COMPLETED")


async def row_of(connection: asyncpg.Connection, wanted: Asked) -> asyncpg.Record | None:
    return await connection.fetchrow("SELECT * FROM surefoot.idempotency_keys WHERE key_hash = $1", wanted.key_hash)


async def history_of(connection: asyncpg.Connection, wanted: Asked) -> list[str]:
    rows = await connection.fetch(
        "SELECT what FROM surefoot.idempotency_history WHERE key_hash = $1 ORDER BY number", wanted.key_hash
    )
    return [row["what"] for row in rows]


async def end_lease(connection: asyncpg.Connection, wanted: Asked) -> None:
    await connection.execute(
        "UPDATE surefoot.idempotency_keys SET lease_until = now() - interval '1 hour' WHERE key_hash = $1",
        wanted.key_hash,
    )


async def age(connection: asyncpg.Connection, wanted: Asked, by: timedelta) -> None:
    """As if so much time had gone by since the first request."""
    await connection.execute(
        """UPDATE surefoot.idempotency_keys SET created_at = created_at - $2::interval,
               replay_until = replay_until - $2::interval, gone_until = gone_until - $2::interval,
               lease_until = lease_until - $2::interval, leased_at = leased_at - $2::interval,
               due_at = due_at - $2::interval WHERE key_hash = $1""",
        wanted.key_hash,
        by,
    )
