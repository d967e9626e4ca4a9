"""The HTTP front doors of checkout and order: what they answer, and what all of them refuse with a sentence."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import httpx
import orjson
import pytest
from fastapi import FastAPI
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

from consumers.checkout import checkout
from schemas.warehouse import StockHeld, StockHoldExpired, StockHoldRejected
from services.checkout import http as checkout_door
from services.front_door import MOST_BYTES
from services.order import http as order_door
from services.order import orders
from services.settings import ServiceSettings
from surefoot.consumer import Consumer
from surefoot.events import EventData
from surefoot.testing.consumer_kit import ConsumerKit
from tests.integration.services.test_orders import create
from tests.support.corpus import each_of
from tests.support.services.goods import HOME, flows, goods, published

pytestmark = pytest.mark.slow  # many of them, each with a database of its own

JSON = {"Content-Type": "application/json"}
PRICE = {"minor_units": 1000, "currency": "EUR"}
WISH: dict[str, Any] = {
    "customer_id": "c-1",
    "lines": [{"sku": "table", "quantity": 2, "unit_price": PRICE}],
    "ship_to": HOME.model_dump(),
    "mode": "choreographed",
}


@asynccontextmanager
async def open_door(app: Callable[[ServiceSettings], FastAPI], url: str) -> AsyncIterator[httpx.AsyncClient]:
    door = app(ServiceSettings(database=url))
    # An error in a handler is answered, as a server would; the transport would raise it in the test instead.
    transport = httpx.ASGITransport(door, raise_app_exceptions=False)
    async with door.router.lifespan_context(door):
        async with httpx.AsyncClient(transport=transport, base_url="http://door") as client:
            yield client


async def learn(engine: AsyncEngine, consumer: Consumer, *told: EventData) -> None:
    """Let a consumer have these events."""
    async with AsyncSession(engine) as session, session.begin():
        kit = ConsumerKit(consumer, session=session)
        await kit.deliver(*told)
        assert not kit.dead, kit.dead
        assert not kit.parked, kit


def assert_problem(answer: httpx.Response, status: int, reason: str, words: str) -> None:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["reason"] == reason
    assert words in answer.json()["detail"]


@pytest.fixture
async def shop_front(shop_url: str) -> AsyncIterator[httpx.AsyncClient]:
    async with open_door(checkout_door.app, shop_url) as client:
        yield client


async def opened(shop_front: httpx.AsyncClient) -> str:
    answer = await shop_front.post("/checkout/sessions", json=WISH)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["session_id"])


async def held(shop_front: httpx.AsyncClient, engine: AsyncEngine, expires_at: str = "2099-01-01T00:00:00Z") -> str:
    session_id = await opened(shop_front)
    told = {"checkout_session_id": session_id, "lines": goods(table=2), "expires_at": expires_at}
    await learn(engine, checkout, StockHeld.model_validate(told))
    return session_id


async def test_opening_a_session_asks_the_warehouse_to_hold_its_goods(
    shop_front: httpx.AsyncClient, connection: asyncpg.Connection
) -> None:
    answer = await shop_front.post("/checkout/sessions", json=WISH)
    assert answer.status_code == 201
    session = answer.json()
    assert (session["state"], session["total"]) == ("HOLDING", {"minor_units": 2000, "currency": "EUR"})
    (asked,) = await published(connection, "warehouse.hold_stock")
    assert asked == {
        "checkout_session_id": session["session_id"],
        "lines": [{"sku": "table", "quantity": 2}],
        "hold_s": 900,
    }
    shown = (await shop_front.get(f"/checkout/sessions/{session['session_id']}")).json()
    assert (shown["state"], shown["order_id"]) == ("HOLDING", session["order_id"])


async def test_two_clicks_ask_for_one_order(
    shop_front: httpx.AsyncClient, engine: AsyncEngine, connection: asyncpg.Connection
) -> None:
    session_id = await held(shop_front, engine)
    clicks = [await shop_front.post(f"/checkout/sessions/{session_id}/place") for _ in range(2)]
    assert [click.status_code for click in clicks] == [202, 202]
    assert clicks[0].json() == clicks[1].json()
    (asked,) = await published(connection, "order.placement_requested")
    assert asked["order_id"] == clicks[0].json()["order_id"]
    assert (asked["checkout_session_id"], asked["mode"]) == (session_id, "choreographed")
    assert await flows(connection) == {session_id}


async def test_a_session_is_placed_only_while_its_goods_are_held(
    shop_front: httpx.AsyncClient, engine: AsyncEngine, connection: asyncpg.Connection
) -> None:
    early = await opened(shop_front)
    answer = await shop_front.post(f"/checkout/sessions/{early}/place")
    assert_problem(answer, 409, "not_held_yet", "has not answered yet")
    assert answer.headers["retry-after"] == "1"

    rejected = StockHoldRejected(checkout_session_id=early, reason="out_of_stock", missing=("table",))
    await learn(engine, checkout, rejected)
    answer = await shop_front.post(f"/checkout/sessions/{early}/place")
    assert_problem(answer, 409, "rejected", "out_of_stock: table")

    late = await held(shop_front, engine)
    await learn(engine, checkout, StockHoldExpired(checkout_session_id=late, lines=goods(table=2)))
    assert_problem(await shop_front.post(f"/checkout/sessions/{late}/place"), 409, "expired", "took too long")

    later = await held(shop_front, engine, "2020-01-01T00:00:00Z")  # nobody has said yet that its time is over
    assert_problem(await shop_front.post(f"/checkout/sessions/{later}/place"), 409, "expired", "took too long")

    assert_problem(await shop_front.post("/checkout/sessions/nobodys/place"), 404, "unknown", "nobodys")
    assert await published(connection, "order.placement_requested") == []


async def test_a_placed_session_stays_placed_when_its_hold_expires(
    shop_front: httpx.AsyncClient, engine: AsyncEngine
) -> None:
    session_id = await held(shop_front, engine)
    await shop_front.post(f"/checkout/sessions/{session_id}/place")
    await learn(engine, checkout, StockHoldExpired(checkout_session_id=session_id, lines=goods(table=2)))
    assert (await shop_front.get(f"/checkout/sessions/{session_id}")).json()["state"] == "PLACED"


@each_of(
    ("change", "words"),
    [
        ({"lines": []}, "lines"),
        ({"lines": [{"sku": "table", "quantity": 0, "unit_price": PRICE}]}, "lines.0.quantity"),
        ({"lines": [{"sku": "table", "quantity": 1, "unit_price": 9.99}]}, "float"),
        ({"customer_id": "c\x00"}, "NUL"),
        ({"customer_id": "c\n1"}, "control character"),
        ({"lines": [{"sku": "ta\nble", "quantity": 1, "unit_price": PRICE}]}, "control character"),
        ({"lines": [{"sku": "table", "quantity": 1, "unit_price": {**PRICE, "minor_units": 0}}]}, "cost nothing"),
        ({"lines": [{"sku": "table", "quantity": 6_000, "unit_price": PRICE}] * 2}, "12000 of table"),
        ({"mode": "by magic"}, "mode"),
        ({"coupon": "FREE"}, "coupon"),
        (
            {"lines": [*WISH["lines"], {"sku": "lamp", "quantity": 1, "unit_price": {**PRICE, "currency": "USD"}}]},
            "one currency",
        ),
    ],
)
async def test_a_wish_that_does_not_fit_is_refused_with_a_sentence(
    change: dict[str, Any], words: str, shop_front: httpx.AsyncClient, connection: asyncpg.Connection
) -> None:
    answer = await shop_front.post("/checkout/sessions", json={**WISH, **change})
    assert_problem(answer, 422, "does_not_fit", words)
    assert await connection.fetchval("SELECT count(*) FROM checkout.sessions") == 0


async def test_a_body_that_is_too_large_is_refused_unread(
    shop_front: httpx.AsyncClient, connection: asyncpg.Connection
) -> None:
    body = orjson.dumps(WISH).ljust(MOST_BYTES)
    assert (await shop_front.post("/checkout/sessions", content=body, headers=JSON)).status_code == 201
    answer = await shop_front.post("/checkout/sessions", content=body + b" ", headers=JSON)
    assert_problem(answer, 413, "too_large", "larger than 256 KiB")
    assert await connection.fetchval("SELECT count(*) FROM checkout.sessions") == 1


async def test_a_body_that_does_not_say_how_large_it_is_is_read_up_to_the_limit(shop_front: httpx.AsyncClient) -> None:
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        yield orjson.dumps(WISH)
        while sent < 100 * MOST_BYTES:
            sent += 1024
            yield b" " * 1024

    answer = await shop_front.post("/checkout/sessions", content=endless(), headers=JSON)
    assert "content-length" not in answer.request.headers
    assert_problem(answer, 413, "too_large", "larger than 256 KiB")
    assert sent <= MOST_BYTES + 1024


async def test_a_body_in_chunks_that_is_not_too_large_is_taken(shop_front: httpx.AsyncClient) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for byte in orjson.dumps(WISH):
            yield bytes([byte])

    answer = await shop_front.post("/checkout/sessions", content=chunks(), headers=JSON)
    assert answer.status_code == 201, answer.text


async def test_the_order_of_a_session_is_shown_when_it_is_there(shop_url: str, engine: AsyncEngine) -> None:
    async with open_door(order_door.app, shop_url) as client:
        answer = await client.post("/orders", json={"checkout_session_id": "s-1"})
        assert (answer.status_code, answer.json()["status"]) == (202, "NOT_THERE_YET")
        assert_problem(await client.get("/orders/o-1"), 404, "unknown", "o-1")
        async with AsyncSession(engine) as session, session.begin():
            await orders.create(session, create("o-1", "s-1"), "orchestrated")
        answer = await client.post("/orders", json={"checkout_session_id": "s-1"})
        assert (answer.status_code, answer.json()["order_id"]) == (200, "o-1")
        shown = (await client.get("/orders/o-1")).json()
        assert (shown["status"], shown["total_minor"], shown["currency"]) == ("PENDING_PAYMENT", 2000, "EUR")


async def test_a_failure_is_told_without_its_details(shop_url: str, connection: asyncpg.Connection) -> None:
    await connection.execute("DROP TABLE orders.orders")
    async with open_door(order_door.app, shop_url) as client:
        answer = await client.get("/orders/o-1")
    assert_problem(answer, 500, "failed", "nothing was changed")
    assert "orders.orders" not in answer.text


async def test_while_the_database_is_away_the_door_says_so() -> None:
    async with open_door(order_door.app, "postgresql://nobody@127.0.0.1:1/none") as client:
        answer = await client.get("/orders/o-1")
    assert_problem(answer, 503, "database_away", "try again")


@pytest.mark.parametrize(
    ("when", "reason", "words"),
    [
        ("INITIALLY DEFERRED", "maybe_done", "it may have been done, or not"),
        ("INITIALLY IMMEDIATE", "database_away", "Nothing was changed by this request"),
    ],
    ids=["during the commit", "before it"],
)
async def test_a_database_that_goes_away_is_told_as_far_as_anybody_knows(
    when: str, reason: str, words: str, shop_front: httpx.AsyncClient, connection: asyncpg.Connection
) -> None:
    await connection.execute(
        f"""CREATE FUNCTION go_away() RETURNS trigger LANGUAGE plpgsql
            AS $$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$;
            CREATE CONSTRAINT TRIGGER go_away AFTER INSERT ON checkout.sessions DEFERRABLE {when}
            FOR EACH ROW EXECUTE FUNCTION go_away()"""
    )
    assert_problem(await shop_front.post("/checkout/sessions", json=WISH), 503, reason, words)
    await connection.execute("DROP TRIGGER go_away ON checkout.sessions")
    await opened(shop_front)
