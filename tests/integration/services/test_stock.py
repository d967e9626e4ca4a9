"""Stock: all lines or none, never below zero however many want the last piece, and every move accounted for."""

import asyncio
import random

import asyncpg
import pytest
from prometheus_client import REGISTRY
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

from services.checks.stock import check
from services.warehouse import stock
from services.warehouse.expiry import expire_holds
from services.warehouse.stock import Held, Refused, Reserved
from surefoot.consumer import Permanent
from surefoot.errors import SchemaOutdated
from tests.support.services.expiry import keep_expiring
from tests.support.services.goods import goods, on_the_shelf, published, received
from tests.support.waiting import eventually

PUBLISHED = "SELECT event_type, key FROM surefoot.outbox_events ORDER BY position"


async def hold(engine: AsyncEngine, session_id: str, hold_s: int = 60, **wanted: int) -> Held | Refused:
    async with AsyncSession(engine) as session, session.begin():
        return await stock.hold(session, session_id, goods(**wanted), hold_s)


async def reserve(engine: AsyncEngine, order_id: str, session_id: str = "", **wanted: int) -> Reserved | Refused:
    async with AsyncSession(engine) as session, session.begin():
        return await stock.reserve(session, order_id, session_id, goods(**wanted))


async def release(engine: AsyncEngine, order_id: str) -> stock.PutBack | None:
    async with AsyncSession(engine) as session, session.begin():
        return await stock.release(session, order_id)


async def expired(connection: asyncpg.Connection, session_id: str) -> None:
    """Let a hold's time pass."""
    await connection.execute(
        "UPDATE warehouse.holds SET expires_at = now() - interval '1 s' WHERE checkout_session_id = $1", session_id
    )


async def test_all_lines_are_reserved_or_none(
    shop_url: str, engine: AsyncEngine, connection: asyncpg.Connection
) -> None:
    await received(engine, table=5, lamp=1)
    assert await reserve(engine, "o-1", table=2, lamp=2) == Refused("out_of_stock", ("lamp",))
    assert await on_the_shelf(connection, "table") == (5, 0, 0, 0)
    assert await reserve(engine, "o-2", table=2, unicorn=1) == Refused("unknown_article", ("unicorn",))
    assert await reserve(engine, "o-3", lamp=1, table=5) == Reserved("o-3", "reservation-o-3", goods(lamp=1, table=5))
    assert await on_the_shelf(connection, "table") == (5, 0, 5, 0)
    assert await check(shop_url) == []


async def test_two_lines_of_one_article_are_not_each_given_its_last_piece(engine: AsyncEngine) -> None:
    await received(engine, table=1)
    async with AsyncSession(engine) as session, session.begin():
        answer = await stock.reserve(session, "o-1", "", goods(table=1) + goods(table=1))
    assert answer == Refused("out_of_stock", ("table",))


async def test_an_order_takes_what_its_session_holds(
    shop_url: str, engine: AsyncEngine, connection: asyncpg.Connection
) -> None:
    await received(engine, table=1)
    assert isinstance(await hold(engine, "s-1", table=1), Held)
    assert await on_the_shelf(connection, "table") == (1, 1, 0, 0)
    assert await reserve(engine, "o-2", "s-2", table=1) == Refused("out_of_stock", ("table",))
    assert isinstance(await reserve(engine, "o-1", "s-1", table=1), Reserved)
    assert await on_the_shelf(connection, "table") == (1, 0, 1, 0)
    assert await connection.fetchval("SELECT state FROM warehouse.holds") == "TAKEN"
    assert await check(shop_url) == []


async def test_an_order_that_wants_other_goods_than_its_session_holds_gets_those_and_frees_the_rest(
    shop_url: str, engine: AsyncEngine, connection: asyncpg.Connection
) -> None:
    await received(engine, table=3, lamp=1)
    await hold(engine, "s-1", table=1, lamp=1)
    assert isinstance(await reserve(engine, "o-1", "s-1", table=2), Reserved)
    assert await on_the_shelf(connection, "table") == (3, 0, 2, 0)
    assert await on_the_shelf(connection, "lamp") == (1, 0, 0, 0)
    assert await check(shop_url) == []


async def test_asked_twice_an_order_has_one_reservation(engine: AsyncEngine, connection: asyncpg.Connection) -> None:
    await received(engine, table=5)
    first = await reserve(engine, "o-1", table=2)
    assert await reserve(engine, "o-1", table=2) == first
    assert await on_the_shelf(connection, "table") == (5, 0, 2, 0)


async def test_what_was_put_back_is_not_set_aside_again(engine: AsyncEngine, connection: asyncpg.Connection) -> None:
    await received(engine, table=5)
    await reserve(engine, "o-1", table=2)
    assert await release(engine, "o-1") == stock.PutBack("o-1", "reservation-o-1", goods(table=2))
    assert await release(engine, "o-1") is None
    assert await on_the_shelf(connection, "table") == (5, 0, 0, 0)
    with pytest.raises(Permanent, match="put back"):
        await reserve(engine, "o-1", table=2)


async def test_a_hold_expires_by_the_databases_clock_and_is_told(
    shop_url: str, engine: AsyncEngine, connection: asyncpg.Connection
) -> None:
    await received(engine, table=2)
    await hold(engine, "s-1", table=1)
    await hold(engine, "s-2", table=1)
    await expired(connection, "s-1")
    assert await expire_holds(engine) == 1
    assert await expire_holds(engine) == 0
    assert await on_the_shelf(connection, "table") == (2, 1, 0, 0)
    assert [tuple(row) for row in await connection.fetch(PUBLISHED)] == [("stock.hold_expired", "s-1")]
    told = {"checkout_session_id": "s-1", "lines": [{"sku": "table", "quantity": 1}]}
    assert await published(connection, "stock.hold_expired") == [told]
    assert await check(shop_url) == []


async def test_an_order_whose_hold_has_expired_gets_what_is_free_or_is_told_that_it_came_late(
    engine: AsyncEngine, connection: asyncpg.Connection
) -> None:
    await received(engine, table=2)
    for session_id in ("s-1", "s-2"):
        await hold(engine, session_id, table=1)
        await expired(connection, session_id)
    await expire_holds(engine)
    await reserve(engine, "o-other", table=1)
    assert isinstance(await reserve(engine, "o-1", "s-1", table=1), Reserved)
    assert await reserve(engine, "o-2", "s-2", table=1) == Refused("hold_expired", ("table",))


async def test_holds_go_on_expiring_until_told_to_stop(
    shop_url: str, engine: AsyncEngine, connection: asyncpg.Connection
) -> None:
    await received(engine, table=300)
    for number in range(250):  # more than a batch
        await hold(engine, f"s-{number}", table=1)
    await connection.execute("UPDATE warehouse.holds SET expires_at = now() - interval '1 s'")
    stopping = asyncio.Event()
    running = asyncio.create_task(keep_expiring(shop_url, stopping))

    async def all_free() -> bool:
        return await on_the_shelf(connection, "table") == (300, 0, 0, 0)

    await eventually(all_free, what="all holds have expired")
    stopping.set()
    await running
    assert len(await published(connection, "stock.hold_expired")) == 250
    assert await check(shop_url) == []


async def test_while_the_database_is_away_the_expiry_waits_and_still_stops_when_told() -> None:
    def outages() -> float:
        return REGISTRY.get_sample_value("surefoot_warehouse_expiry_outages_total") or 0

    before, stopping = outages(), asyncio.Event()
    running = asyncio.create_task(keep_expiring("postgresql://nobody@127.0.0.1:1/none", stopping))

    async def is_noticed() -> bool:
        return outages() == before + 1

    await eventually(is_noticed, what="the outage is noticed")
    stopping.set()
    await running


async def test_an_expiry_without_its_tables_says_so(empty_database_url: str) -> None:
    with pytest.raises(SchemaOutdated, match=r"warehouse\.holds"):
        await keep_expiring(empty_database_url, asyncio.Event())


async def test_what_is_shipped_leaves_the_house_once(
    shop_url: str, engine: AsyncEngine, connection: asyncpg.Connection
) -> None:
    await received(engine, table=5)
    await reserve(engine, "o-1", table=2)
    for _ in range(2):
        async with AsyncSession(engine) as session, session.begin():
            await stock.ship(session, "o-1")
    assert await on_the_shelf(connection, "table") == (3, 0, 0, 0)
    assert await release(engine, "o-1") is None
    assert await check(shop_url) == []


async def test_what_comes_back_is_put_away_once(
    shop_url: str, engine: AsyncEngine, connection: asyncpg.Connection
) -> None:
    await received(engine, table=5)
    for return_id, place, quantity in (("r-1", "SHELF", 2), ("r-1", "SHELF", 2), ("r-2", "QUARANTINE", 1)):
        async with AsyncSession(engine) as session, session.begin():
            await stock.put_away(session, return_id, place, goods(table=quantity))  # type: ignore[arg-type]
    assert await on_the_shelf(connection, "table") == (7, 0, 0, 1)
    assert await check(shop_url) == []


async def test_of_many_who_want_the_last_pieces_exactly_as_many_get_one_as_there_are(
    shop_url: str, engine: AsyncEngine, connection: asyncpg.Connection
) -> None:
    """8 at a time, some by holding first, each wanting both articles, named in either order."""
    await received(engine, table=20, lamp=25)

    async def buyer(number: int) -> list[bool]:
        got = []
        for turn in range(8):
            order_id, session_id = f"o-{number}-{turn}", f"s-{number}-{turn}"
            wanted = {"lamp": 1, "table": 1} if number % 2 else {"table": 1, "lamp": 1}
            if turn % 2:
                await hold(engine, session_id, **wanted)
            got.append(isinstance(await reserve(engine, order_id, session_id, **wanted), Reserved))
        return got

    answers = await asyncio.gather(*(buyer(number) for number in range(8)))
    assert sum(answer for got in answers for answer in got) == 20
    assert await on_the_shelf(connection, "table") == (20, 0, 20, 0)
    assert await on_the_shelf(connection, "lamp") == (25, 0, 20, 0)
    assert await check(shop_url) == []


async def test_who_waits_for_the_last_piece_gets_it_when_it_is_given_back(
    shop_url: str, engine: AsyncEngine, connection: asyncpg.Connection
) -> None:
    """The one who waits began when the piece was still taken: what he saw then must not be held against him."""
    await received(engine, table=1)
    await reserve(engine, "o-1", table=1)
    async with AsyncSession(engine) as session, session.begin():
        await stock.release(session, "o-1")
        waiting = asyncio.create_task(reserve(engine, "o-2", table=1))

        async def is_waiting() -> bool:
            return bool(await connection.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"))

        await eventually(is_waiting, what="the second order waits for the row")
    assert await waiting == Reserved("o-2", "reservation-o-2", goods(table=1))
    assert await check(shop_url) == []


@pytest.mark.slow
async def test_nothing_is_refused_or_lost_while_everything_happens_to_two_articles_at_once(
    shop_url: str, engine: AsyncEngine, connection: asyncpg.Connection
) -> None:
    """Holds, expiries, orders, releases and shipments beside each other. A constraint that is checked on a row's old
    version, a lock taken in another order, an expiry that races an order: each would show as an error or a finding."""
    await received(engine, table=30, lamp=30)

    async def buyer(number: int) -> None:
        chance = random.Random(number)
        for turn in range(40):
            order_id, session_id = f"o-{number}-{turn}", f"s-{number}-{turn}"
            wanted = {"table": chance.randint(1, 3), "lamp": chance.randint(1, 3)}
            if chance.random() < 0.6:
                await hold(engine, session_id, chance.choice([0, 60]), **wanted)  # some are over at once
            answer = await reserve(engine, order_id, session_id, **wanted)
            async with AsyncSession(engine) as session, session.begin():
                if isinstance(answer, Refused):
                    await stock.release_hold(session, session_id, order_id)
                elif chance.random() < 0.02:
                    await stock.ship(session, order_id)
                else:
                    await stock.release(session, order_id)

    async def expiry() -> None:
        while not done.is_set():
            await expire_holds(engine)

    done = asyncio.Event()
    expiring = asyncio.create_task(expiry())
    await asyncio.gather(*(buyer(number) for number in range(8)))
    done.set()
    await expiring
    await expire_holds(engine)
    states = await connection.fetch("SELECT DISTINCT state FROM warehouse.holds")
    assert {row[0] for row in states} >= {"TAKEN", "EXPIRED"}
    assert await check(shop_url) == []


async def test_the_database_itself_refuses_a_number_below_zero_and_a_promise_of_more_than_there_is(
    engine: AsyncEngine, connection: asyncpg.Connection
) -> None:
    await received(engine, table=1)
    with pytest.raises(asyncpg.CheckViolationError, match="never_negative"):
        await connection.execute("UPDATE warehouse.stock SET quarantined = -1")
    with pytest.raises(asyncpg.CheckViolationError, match="never_promised_twice"):
        await connection.execute("UPDATE warehouse.stock SET reserved = 2")


async def test_moves_are_only_ever_added(engine: AsyncEngine, connection: asyncpg.Connection) -> None:
    await received(engine, table=1)
    for statement in ("UPDATE warehouse.moves SET on_hand = 2", "DELETE FROM warehouse.moves"):
        with pytest.raises(asyncpg.RaiseError, match="only ever added to"):
            await connection.execute(statement)
