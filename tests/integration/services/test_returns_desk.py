"""The returns service's front door: what can come back and what it is worth; two clicks, one return."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import asyncpg
import httpx
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from consumers.returns import returns
from schemas.order import OrderConfirmed, OrderPendingPayment
from schemas.returns import ReturnAborted, ReturnEscalated, ReturnFinished
from services.returns import http as returns_door
from surefoot.events import Money
from tests.integration.services.test_front_doors import PRICE, assert_problem, learn, open_door
from tests.support.services.goods import HOME, lines, published

pytestmark = pytest.mark.slow  # many of them, each with a database of its own


@pytest.fixture
async def desk(shop_url: str, engine: AsyncEngine) -> AsyncIterator[httpx.AsyncClient]:
    """The returns desk, where order o-1 (two tables at 10 EUR) was bought and confirmed, and o-2 was not."""
    for order_id in ("o-1", "o-2"):
        pending = OrderPendingPayment(
            order_id=order_id,
            customer_id="c-1",
            checkout_session_id=f"s-{order_id}",
            mode="orchestrated",
            lines=lines(table=2),
            total=Money.minor(2000, "EUR"),
        )
        await learn(engine, returns, pending)
    await learn(engine, returns, OrderConfirmed(order_id="o-1", mode="orchestrated"))
    async with open_door(returns_door.app, shop_url) as client:
        yield client


def back(order_id: str = "o-1", **quantities: int) -> dict[str, Any]:
    """A wish, with an id of its own."""
    wanted = [{"sku": sku, "quantity": quantity} for sku, quantity in quantities.items()]
    return {
        "return_request_id": str(uuid4()),
        "order_id": order_id,
        "lines": wanted,
        "ship_from": HOME.model_dump(),
    }


async def test_a_return_is_worth_what_was_paid_and_nothing_comes_back_twice(
    desk: httpx.AsyncClient, connection: asyncpg.Connection
) -> None:
    first = await desk.post("/returns", json=back(table=1))
    assert first.status_code == 202, first.text
    assert first.json()["amount"] == PRICE
    (told,) = await published(connection, "return.requested")
    assert (told["return_id"], told["amount"], told["customer_id"]) == (first.json()["return_id"], PRICE, "c-1")
    assert_problem(await desk.post("/returns", json=back(table=2)), 409, "too_many", "2 were bought, and 1")
    assert (await desk.post("/returns", json=back(table=1))).status_code == 202
    assert_problem(await desk.post("/returns", json=back(table=1)), 409, "too_many", "2 were bought, and 2")


async def test_only_what_was_bought_and_confirmed_can_come_back(desk: httpx.AsyncClient) -> None:
    assert_problem(await desk.post("/returns", json=back("o-2", table=1)), 409, "not_confirmed", "o-2")
    assert_problem(await desk.post("/returns", json=back("o-9", table=1)), 404, "unknown_order", "o-9")
    assert_problem(await desk.get("/returns/r-9"), 404, "unknown", "r-9")


async def test_more_than_anybody_can_buy_is_too_many(desk: httpx.AsyncClient) -> None:
    wish = {**back(), "lines": [{"sku": "table", "quantity": 6_000}] * 2}
    assert_problem(await desk.post("/returns", json=wish), 409, "too_many", "12000 of table cannot be given back")


async def test_an_order_that_nobody_ships_cannot_come_back(desk: httpx.AsyncClient, engine: AsyncEngine) -> None:
    pending = OrderPendingPayment(
        order_id="o-3",
        customer_id="c-1",
        checkout_session_id="s-3",
        mode="choreographed",
        lines=lines(table=2),
        total=Money.minor(2000, "EUR"),
    )
    await learn(engine, returns, pending, OrderConfirmed(order_id="o-3", mode="choreographed"))
    assert_problem(await desk.post("/returns", json=back("o-3", table=1)), 409, "not_confirmed", "not on its way")


async def test_what_an_aborted_return_was_worth_can_be_had_again(desk: httpx.AsyncClient, engine: AsyncEngine) -> None:
    pending = OrderPendingPayment(
        order_id="o-4",
        customer_id="c-1",
        checkout_session_id="s-4",
        mode="orchestrated",
        lines=(*lines(price=1000, table=1), *lines(price=300, table=1)),
        total=Money.minor(1300, "EUR"),
    )
    await learn(engine, returns, pending, OrderConfirmed(order_id="o-4", mode="orchestrated"))
    asked = [(await desk.post("/returns", json=back("o-4", table=1))).json() for _ in range(2)]
    aborted = ReturnAborted(return_id=asked[0]["return_id"], order_id="o-4", customer_id="c-1")
    await learn(engine, returns, aborted)
    asked.append((await desk.post("/returns", json=back("o-4", table=1))).json())
    assert [one["amount"]["minor_units"] for one in asked] == [1000, 300, 1000]


async def test_a_return_follows_its_saga_and_an_end_is_an_end(desk: httpx.AsyncClient, engine: AsyncEngine) -> None:
    return_id = (await desk.post("/returns", json=back(table=2))).json()["return_id"]
    ids = {"return_id": return_id, "order_id": "o-1"}

    async def state() -> str:
        return str((await desk.get(f"/returns/{return_id}")).json()["state"])

    assert await state() == "REQUESTED"
    await learn(engine, returns, ReturnEscalated(**ids, customer_id="c-1", tracking_code="t"))
    assert await state() == "ESCALATED"
    await learn(engine, returns, ReturnAborted(**ids, customer_id="c-1"))
    assert await state() == "ABORTED"
    await learn(engine, returns, ReturnFinished(**ids))
    assert await state() == "ABORTED"
    assert (await desk.post("/returns", json=back(table=2))).status_code == 202  # what was aborted may be tried again


async def test_two_clicks_make_one_return(desk: httpx.AsyncClient, connection: asyncpg.Connection) -> None:
    wish = back(table=1)
    clicks = [await desk.post("/returns", json=wish) for _ in range(2)]
    assert [click.status_code for click in clicks] == [202, 202]
    assert clicks[0].json() == clicks[1].json()
    (told,) = await published(connection, "return.requested")
    assert told["return_id"] == clicks[0].json()["return_id"]
    assert await connection.fetchval("SELECT count(*) FROM returns.returns") == 1


async def test_clicks_at_the_same_time_make_one_return(desk: httpx.AsyncClient, connection: asyncpg.Connection) -> None:
    wish = back(table=1)
    clicks = await asyncio.gather(*(desk.post("/returns", json=wish) for _ in range(8)))
    assert {click.status_code for click in clicks} == {202}, [click.text for click in clicks]
    assert len({click.text for click in clicks}) == 1
    assert len(await published(connection, "return.requested")) == 1


async def test_a_click_that_comes_late_is_told_what_became_of_the_return(
    desk: httpx.AsyncClient, engine: AsyncEngine
) -> None:
    wish = back(table=2)
    first = (await desk.post("/returns", json=wish)).json()
    await learn(engine, returns, ReturnAborted(return_id=first["return_id"], order_id="o-1", customer_id="c-1"))
    again = await desk.post("/returns", json=wish)
    assert (again.status_code, again.json()) == (202, {**first, "state": "ABORTED"})


async def test_an_id_is_of_one_wish_of_one_order(desk: httpx.AsyncClient, engine: AsyncEngine) -> None:
    wish = back(table=1)
    first = (await desk.post("/returns", json=wish)).json()
    more = {**wish, "lines": [{"sku": "table", "quantity": 2}]}
    assert_problem(await desk.post("/returns", json=more), 409, "request_reused", first["return_id"])
    await learn(engine, returns, OrderConfirmed(order_id="o-2", mode="orchestrated"))
    of_another = await desk.post("/returns", json={**wish, "order_id": "o-2"})
    assert of_another.status_code == 202
    assert of_another.json()["return_id"] != first["return_id"]


async def test_without_an_id_the_same_goods_are_refused_while_their_return_is_open(
    desk: httpx.AsyncClient, engine: AsyncEngine, connection: asyncpg.Connection
) -> None:
    wish = {**back(table=1), "return_request_id": None}
    clicks = await asyncio.gather(*(desk.post("/returns", json=wish) for _ in range(4)))
    (made,) = [click.json() for click in clicks if click.status_code == 202]
    for refused in (click for click in clicks if click.status_code != 202):
        assert_problem(refused, 409, "already_requested", f"The return {made['return_id']} of just these goods")
    assert len(await published(connection, "return.requested")) == 1
    await learn(engine, returns, ReturnFinished(return_id=made["return_id"], order_id="o-1"))
    assert (await desk.post("/returns", json=wish)).status_code == 202  # the other table
