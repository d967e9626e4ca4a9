"""What the tests of payment webhooks stand on: charges in a database, an app that takes webhooks, a gateway that signs,
and a checker that reads the tables and says what is wrong in them."""

import base64
import json
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import asyncpg
import httpx
from fastapi import FastAPI
from pydantic import SecretStr
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine

from services.payment.charge_news import News
from services.payment.charge_states import move_forward
from services.payment.charge_step import After
from services.payment.settings import WebhookSettings
from services.payment.webhooks import PATH, webhook_router
from services.tables import create_tables
from surefoot.database.address import sqlalchemy_url
from surefoot.webhooks import Scheme, keys_of, sign

MOMENT = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
AT = int(MOMENT.timestamp())
SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()
NEXT_SECRET = "whsec_" + base64.b64encode(bytes(range(32, 64))).decode()
NOTED_MOVES = """
    CREATE TABLE payments.moves (number bigint GENERATED ALWAYS AS IDENTITY, charge_id text, was text, is_now text);
    CREATE FUNCTION payments.note_move() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO payments.moves (charge_id, was, is_now) VALUES (NEW.charge_id, OLD.status, NEW.status);
        RETURN NEW;
    END $$;
    CREATE TRIGGER note_move AFTER UPDATE OF status ON payments.charges FOR EACH ROW
        WHEN (OLD.status <> NEW.status) EXECUTE FUNCTION payments.note_move();
"""
"""Each change of a charge's status is written down by the database itself: the checker believes nobody else."""
NEWS = "gateway_txn_id, kind, given_back"
FORWARD = {
    ("PENDING", "AUTHORIZED"),
    ("PENDING", "CAPTURED"),
    ("PENDING", "DECLINED"),
    ("PENDING", "VOIDED"),
    ("PENDING", "REFUNDED"),
    ("AUTHORIZED", "CAPTURED"),
    ("AUTHORIZED", "DECLINED"),
    ("AUTHORIZED", "VOIDED"),
    ("AUTHORIZED", "REFUNDED"),
    ("CAPTURED", "REFUNDED"),
}


def event(
    kind: str = "captured",
    *,
    id_: str | None = None,
    txn: str = "txn-1",
    charge: str | None = None,
    amount: int = 2000,
    created: int = AT,
    **more: Any,
) -> bytes:
    data = {"gateway_txn_id": txn, "amount": {"minor_units": amount, "currency": "EUR"}, **more}
    if charge is not None:
        data["charge_id"] = charge
    said = {"id": id_ or f"evt-{txn}-{kind}", "type": f"payment.{kind}", "created": created, "data": data}
    return json.dumps(said).encode()


def signed(body: bytes, *secrets: str, at: int = AT, scheme: Scheme = "standard") -> dict[str, str]:
    return sign(scheme, body, keys_of(scheme, secrets or (SECRET,)), message_id="msg-1", at=at)


@dataclass(slots=True)
class WebhookGround:
    url: str
    engine: AsyncEngine
    connection: asyncpg.Connection
    client: httpx.AsyncClient
    app: FastAPI = field(repr=False)

    async def charge(self, charge_id: str = "ch-1", *, txn: str | None = "txn-1", status: str = "PENDING") -> None:
        await self.connection.execute(
            "INSERT INTO payments.charges (charge_id, tenant, amount, currency, status, gateway, provider_key,"
            " gateway_txn_id) VALUES ($1, 'acme', 2000, 'EUR', $2, 'provider', $3, $4)",
            charge_id,
            status,
            f"key-{charge_id}",
            txn,
        )

    async def post(self, body: bytes, headers: Mapping[str, str] | None = None) -> httpx.Response:
        return await self.client.post(PATH, content=body, headers=signed(body) if headers is None else headers)

    async def outcome(self, body: bytes) -> str:
        answer = await self.post(body)
        assert answer.status_code == 200, answer.text
        return str(answer.json()["outcome"])

    async def inline(self, news: News, charge_id: str = "ch-1", *, after: After | None = None) -> object:
        """The gateway's answer, as the API takes it."""
        async with AsyncSession(self.engine) as session, session.begin():
            return await move_forward(session, charge_id, news, after=after)

    async def stands(self, charge_id: str = "ch-1") -> tuple[str, str | None, int]:
        query = "SELECT status, gateway_txn_id, refunded FROM payments.charges WHERE charge_id = $1"
        status, txn, refunded = await self.connection.fetchrow(query, charge_id)
        return status, txn, refunded

    async def told(self) -> list[str]:
        """The types of what was published, in order."""
        rows = await self.connection.fetch(
            "SELECT headers::text FROM surefoot.outbox WHERE topic = 'charge.events' ORDER BY position"
        )
        return [dict(json.loads(row[0]))["ce_type"] for row in rows]

    async def events(self) -> dict[str, str]:
        """The state of each event that is written down."""
        rows = await self.connection.fetch("SELECT event_id, state FROM payments.payment_events ORDER BY received_at")
        return {row[0]: row[1] for row in rows}

    async def violations(self) -> set[str]:
        """What is wrong in the tables, whoever wrote them."""
        found = set()
        for name, columns in (("event recorded twice", "gateway, event_id"), ("news recorded twice", NEWS)):
            rows = await self.connection.fetch(f"SELECT {columns} FROM payments.payment_events")
            if any(times > 1 for times in Counter(tuple(row) for row in rows).values()):
                found.add(name)
        moves = await self.connection.fetch("SELECT was, is_now FROM payments.moves")
        if any(tuple(row) not in FORWARD for row in moves):
            found.add("moved backwards")
        payloads = await self.connection.fetch(
            "SELECT headers::text, payload::text FROM surefoot.outbox WHERE topic = 'charge.events'"
        )
        news = Counter(
            (dict(json.loads(headers))["ce_type"], json.loads(data)["charge_id"], str(json.loads(data)["amount"]))
            for headers, data in payloads
        )
        if any(times > 1 for times in news.values()):
            found.add("told twice")
        lost = await self.connection.fetchval(
            "SELECT count(*) FROM payments.payment_events AS event JOIN payments.charges AS charge"
            " ON charge.gateway_txn_id = event.gateway_txn_id OR charge.charge_id = event.charge_id"
            " WHERE event.state = 'UNMATCHED'"
        )
        return found | ({"kept for ever"} if lost else set())


@asynccontextmanager
async def webhook_ground(url: str, *, after: After | None = None, **changed: Any) -> AsyncIterator[WebhookGround]:
    """`changed`: settings other than these."""
    await create_tables(url, "payment")
    async with webhook_client(url, after=after, **changed) as ground:
        await ground.connection.execute(NOTED_MOVES)
        yield ground


@asynccontextmanager
async def webhook_client(url: str, *, after: After | None = None, **changed: Any) -> AsyncIterator[WebhookGround]:
    """On tables that are there already."""
    connection = await asyncpg.connect(url)
    engine = create_async_engine(sqlalchemy_url(url), pool_size=20, max_overflow=0)
    app = FastAPI()
    settings = WebhookSettings(**{"secrets": SecretStr(SECRET), **changed})
    app.include_router(webhook_router(engine, settings, after=after, clock=lambda: MOMENT))
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://webhooks", timeout=30) as client:
        try:
            yield WebhookGround(url, engine, connection, client, app)
        finally:
            await engine.dispose()
            await connection.close()
