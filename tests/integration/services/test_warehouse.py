"""The warehouse's commands: what it answers, and that a repeat, or an undo before its do, moves nothing twice."""

from collections.abc import AsyncIterator

import asyncpg
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

from consumers.warehouse import warehouse
from schemas.shipping import ShipmentRequested
from schemas.warehouse import (
    HoldStock,
    InspectReturn,
    NothingToRelease,
    Quarantine,
    ReleaseStock,
    ReserveStock,
    Restock,
    ReturnInspected,
    StockHeld,
    StockHoldRejected,
    StockQuarantined,
    StockRejected,
    StockReleased,
    StockReserved,
    StockRestocked,
)
from services.checks.stock import check
from surefoot.events import EventData, new_event
from surefoot.events.event import Command
from surefoot.log.postgres.log import PostgresLog
from surefoot.testing.consumer_kit import ConsumerKit
from tests.support.consumer.processes import consumer_running, outcomes, publish
from tests.support.services.goods import HOME, goods, on_the_shelf, received
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow  # many of them, each with a database of its own

RESERVE = ReserveStock(order_id="o-1", checkout_session_id="s-1", lines=goods(table=2))
RELEASE = ReleaseStock(order_id="o-1", reason="compensation")
RESERVED = StockReserved(order_id="o-1", reservation_id="reservation-o-1", lines=goods(table=2))


@pytest.fixture
async def session(engine: AsyncEngine) -> AsyncIterator[AsyncSession]:
    """Five tables on the shelf, and a session that has not committed."""
    await received(engine, table=5)
    async with AsyncSession(engine) as session:
        yield session


@pytest.fixture
def kit(session: AsyncSession) -> ConsumerKit:
    return ConsumerKit(warehouse, session=session)


async def test_stock_is_reserved_once_and_a_repeat_gets_the_same_answer(
    kit: ConsumerKit, session: AsyncSession, connection: asyncpg.Connection
) -> None:
    await kit.command(RESERVE, saga="g-1", step="reserve_stock")
    await kit.command(RESERVE, saga="g-1", step="reserve_stock", attempt=2)
    await session.commit()
    assert kit.published == [RESERVED, RESERVED]
    assert await on_the_shelf(connection, "table") == (5, 0, 2, 0)


async def test_what_cannot_be_had_is_refused_and_names_the_articles(kit: ConsumerKit) -> None:
    wish = ReserveStock(order_id="o-1", checkout_session_id="s-1", lines=goods(table=6))
    await kit.command(wish, saga="g-1", step="reserve_stock")
    assert kit.published == [StockRejected(order_id="o-1", reason="out_of_stock", missing=("table",))]


async def test_an_undo_puts_back_what_was_set_aside(
    kit: ConsumerKit, session: AsyncSession, connection: asyncpg.Connection
) -> None:
    await kit.command(RESERVE, saga="g-1", step="reserve_stock")
    await kit.command(RELEASE, saga="g-1", step="reserve_stock", direction="undo")
    await session.commit()
    released = StockReleased(
        order_id="o-1", reservation_id="reservation-o-1", lines=goods(table=2), reason="compensation"
    )
    assert kit.published == [RESERVED, released]
    assert await on_the_shelf(connection, "table") == (5, 0, 0, 0)


async def test_an_undo_before_its_do_finds_nothing_and_bars_the_do(
    kit: ConsumerKit, session: AsyncSession, connection: asyncpg.Connection
) -> None:
    await kit.command(RELEASE, saga="g-1", step="reserve_stock", direction="undo")
    late = await kit.command(RESERVE, saga="g-1", step="reserve_stock")
    await session.commit()
    assert kit.published == [NothingToRelease(order_id="o-1")]
    assert kit.outcome_of(late) == "BARRED"
    assert await on_the_shelf(connection, "table") == (5, 0, 0, 0)


async def test_a_hold_outside_of_any_saga_is_answered_and_asked_again_gets_the_same_answer(
    kit: ConsumerKit, session: AsyncSession, connection: asyncpg.Connection
) -> None:
    wish = HoldStock(checkout_session_id="s-1", lines=goods(table=2), hold_s=60)
    await kit.deliver(wish)
    await kit.deliver(new_event(wish))
    await session.commit()
    first, second = kit.published
    assert isinstance(first, StockHeld)
    assert first == second
    expires = await connection.fetchval("SELECT expires_at - clock_timestamp() FROM warehouse.holds")
    assert 50 < expires.total_seconds() <= 60
    assert await on_the_shelf(connection, "table") == (5, 2, 0, 0)


async def test_more_than_is_handled_at_once_is_refused_and_nobody_waits_for_an_answer(kit: ConsumerKit) -> None:
    many = (*goods(table=9_999), *goods(table=2), *goods(lamp=1))
    await kit.deliver(HoldStock(checkout_session_id="s-1", lines=many, hold_s=60))
    await kit.command(ReserveStock(order_id="o-1", checkout_session_id="s-9", lines=many), saga="g-1", step="reserve")
    assert kit.published == [
        StockHoldRejected(checkout_session_id="s-1", reason="out_of_stock", missing=("table",)),
        StockRejected(order_id="o-1", reason="out_of_stock", missing=("table",)),
    ]
    assert not kit.dead


async def test_a_hold_that_cannot_be_had_is_refused(kit: ConsumerKit) -> None:
    await kit.deliver(HoldStock(checkout_session_id="s-1", lines=goods(table=2, unicorn=1), hold_s=60))
    refused = StockHoldRejected(checkout_session_id="s-1", reason="unknown_article", missing=("unicorn",))
    assert kit.published == [refused]


async def test_what_a_carrier_takes_leaves_the_shelf(
    kit: ConsumerKit, session: AsyncSession, connection: asyncpg.Connection
) -> None:
    await kit.command(RESERVE, saga="g-1", step="reserve_stock")
    shipped = ShipmentRequested(order_id="o-1", shipment_id="x", carrier="post", lines=goods(table=2), ship_to=HOME)
    await kit.deliver(shipped)
    await session.commit()
    assert await on_the_shelf(connection, "table") == (3, 0, 0, 0)


async def test_an_inspection_finds_what_was_written_down_beforehand(
    kit: ConsumerKit, connection: asyncpg.Connection
) -> None:
    await connection.execute(
        "INSERT INTO warehouse.inspections (return_id, verdict, remark) VALUES ('r-1', 'REJECTED', 'Empty box.')"
    )
    await kit.command(InspectReturn(order_id="o-1", return_id="r-1", lines=goods(table=1)), saga="g-1", step="inspect")
    assert kit.published == [ReturnInspected(order_id="o-1", return_id="r-1", verdict="REJECTED", remark="Empty box.")]


async def test_an_inspection_is_written_down(
    kit: ConsumerKit, session: AsyncSession, connection: asyncpg.Connection
) -> None:
    await kit.command(InspectReturn(order_id="o-1", return_id="r-1", lines=goods(table=1)), saga="g-1", step="inspect")
    await session.commit()
    (told,) = kit.published
    assert isinstance(told, ReturnInspected)
    row = await connection.fetchrow("SELECT verdict, remark FROM warehouse.inspections WHERE return_id = 'r-1'")
    assert tuple(row) == (told.verdict, told.remark)


@pytest.mark.parametrize(
    ("wish", "answer", "shelf"),
    [
        (
            Restock(order_id="o-1", return_id="r-1", lines=goods(table=1)),
            StockRestocked(order_id="o-1", return_id="r-1", lines=goods(table=1)),
            (6, 0, 0, 0),
        ),
        (
            Quarantine(order_id="o-1", return_id="r-1", lines=goods(table=1)),
            StockQuarantined(order_id="o-1", return_id="r-1", lines=goods(table=1)),
            (5, 0, 0, 1),
        ),
    ],
)
async def test_what_comes_back_goes_to_its_place_once_even_for_two_sagas(
    wish: EventData,
    answer: EventData,
    shelf: tuple[int, ...],
    kit: ConsumerKit,
    session: AsyncSession,
    connection: asyncpg.Connection,
) -> None:
    for saga in ("g-1", "g-2"):
        await kit.command(wish, saga=saga, step="put_away")
    await session.commit()
    assert kit.published == [answer, answer]
    assert await on_the_shelf(connection, "table") == shelf


async def test_sagas_that_fight_for_the_last_pieces_in_many_partitions_get_exactly_those_there_are(
    shop_url: str, engine: AsyncEngine, connection: asyncpg.Connection, log: PostgresLog
) -> None:
    """Two members, batches, two articles in either order: batches deadlock and are taken apart, and nothing is lost."""
    await received(engine, table=50, lamp=60)
    wishes = []
    for number in range(200):
        lines = goods(lamp=1, table=1) if number % 2 else goods(table=1, lamp=1)
        wish = ReserveStock(order_id=f"o-{number}", checkout_session_id=f"s-{number}", lines=lines)
        step = Command(f"g-{number}", "reserve_stock", "do", 1)
        wishes.append(new_event(wish, extensions=step.extensions()))
    await publish(log, *wishes)
    async with consumer_running(warehouse, shop_url, log), consumer_running(warehouse, shop_url, log):

        async def all_answered() -> bool:
            return (await outcomes(connection, "warehouse")).get("PROCESSED", 0) == 200

        await eventually(all_answered, what="all wishes are answered")
    answers = await connection.fetch("SELECT event_type, count(*) FROM surefoot.outbox_events GROUP BY 1 ORDER BY 1")
    assert [tuple(row) for row in answers] == [("stock.rejected", 150), ("stock.reserved", 50)]
    assert await on_the_shelf(connection, "table") == (50, 0, 50, 0)
    assert await on_the_shelf(connection, "lamp") == (60, 0, 50, 0)
    assert await check(shop_url) == []
