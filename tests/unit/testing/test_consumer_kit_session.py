"""What handlers get as `tx.session` in the kit: nothing, a stand-in, or a real session."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from surefoot.consumer import Consumer, HandlerMisuse, Transaction, Transient
from surefoot.events import Event
from surefoot.testing.consumer_kit import ConsumerKit, KitMisuse
from tests.support.shop_types import OrderPaid, StockReserved

pytestmark = pytest.mark.slow

PAID = OrderPaid(order_id="o-1")
Work = Callable[[Transaction], Awaitable[Any]]


def doing(work: Work) -> Consumer:
    consumer = Consumer("warehouse")

    @consumer.on(OrderPaid)
    async def reserve(event: Event[OrderPaid], tx: Transaction) -> None:
        tx.publish(StockReserved(order_id=event.key))
        await work(tx)

    return consumer


@pytest.fixture
async def session(empty_database_url: str) -> AsyncIterator[AsyncSession]:
    engine = create_async_engine(empty_database_url.replace("postgresql://", "postgresql+asyncpg://"))
    async with AsyncSession(engine) as session:
        await session.execute(text("CREATE TABLE notes (note text PRIMARY KEY)"))
        await session.commit()
        yield session
    await engine.dispose()


async def write(tx: Transaction) -> None:
    await tx.session.execute(text("INSERT INTO notes VALUES ('written')"))


async def notes(session: AsyncSession) -> list[str]:
    return list(await session.scalars(text("SELECT note FROM notes")))


async def test_without_a_session_touching_it_says_to_give_one() -> None:
    with pytest.raises(KitMisuse, match=r"uses tx\.session\.execute, .*ConsumerKit\(consumer, session="):
        await ConsumerKit(doing(write)).deliver(PAID)


async def test_a_batch_handler_without_a_session_is_told_so_too() -> None:
    consumer = Consumer("warehouse")

    @consumer.on_batch(OrderPaid)
    async def reserve(events: list[Event[OrderPaid]], tx: Transaction) -> None:
        await write(tx)

    with pytest.raises(KitMisuse, match=r"tx\.session\.execute"):
        await ConsumerKit(consumer).deliver(PAID, PAID)


async def test_a_stand_in_is_handed_to_handlers_as_it_is() -> None:
    stand_in, seen = object(), []

    async def look(tx: Transaction) -> None:
        seen.append(tx.session)

    kit = ConsumerKit(doing(look), session=stand_in)
    await kit.deliver(PAID)
    assert seen == [stand_in]


async def test_a_real_session_has_what_the_handler_wrote(session: AsyncSession) -> None:
    kit = ConsumerKit(doing(write), session=session)
    await kit.deliver(PAID)
    assert await notes(session) == ["written"]
    await session.rollback()
    assert await notes(session) == []


async def test_what_a_failed_attempt_wrote_is_gone_and_what_went_before_is_not(session: AsyncSession) -> None:
    async def write_and_fail(tx: Transaction) -> None:
        await write(tx)
        raise Transient

    await session.execute(text("INSERT INTO notes VALUES ('before')"))
    kit = ConsumerKit(doing(write_and_fail), session=session)
    await kit.deliver(PAID)
    assert (await notes(session), kit.published, kit.outcome_of(PAID)) == (["before"], [], "PARKED")


async def test_an_error_of_the_database_costs_only_its_own_event(session: AsyncSession) -> None:
    kit = ConsumerKit(doing(write), session=session)
    first, second = await kit.deliver(PAID, OrderPaid(order_id="o-2"))
    assert (kit.outcome_of(first), kit.outcome_of(second)) == ("PROCESSED", "PARKED")
    assert "duplicate key" in str(kit.error_of(second))
    assert await notes(session) == ["written"]


@pytest.mark.parametrize("name", ["commit", "rollback", "close"])
async def test_a_handler_that_ends_the_transaction_itself_is_found_out(name: str, session: AsyncSession) -> None:
    async def end(tx: Transaction) -> None:
        await write(tx)
        await getattr(tx.session, name)()

    kit = ConsumerKit(doing(end), session=session)
    await kit.deliver(PAID)
    assert isinstance(kit.error_of(PAID), HandlerMisuse)
    assert kit.published == []


async def test_a_handler_may_use_savepoints_of_its_own(session: AsyncSession) -> None:
    async def try_out(tx: Transaction) -> None:
        async with tx.session.begin_nested() as savepoint:
            await write(tx)
            await savepoint.rollback()

    kit = ConsumerKit(doing(try_out), session=session)
    await kit.deliver(PAID)
    assert (kit.outcome_of(PAID), await notes(session)) == ("PROCESSED", [])


async def test_what_was_published_in_a_savepoint_that_was_rolled_back_is_not_published(session: AsyncSession) -> None:
    async def try_out(tx: Transaction) -> None:
        async with tx.session.begin_nested() as outer:
            async with tx.session.begin_nested():
                tx.publish(StockReserved(order_id="inner, released"))
            await outer.rollback()
        async with tx.session.begin_nested():
            tx.publish(StockReserved(order_id="kept"))

    kit = ConsumerKit(doing(try_out), session=session)
    await kit.deliver(PAID)
    assert kit.published == [StockReserved(order_id="o-1"), StockReserved(order_id="kept")]


async def test_a_handler_that_swallows_an_error_of_the_database_has_failed(session: AsyncSession) -> None:
    async def write_twice(tx: Transaction) -> None:
        await write(tx)
        with contextlib.suppress(IntegrityError):
            await write(tx)

    kit = ConsumerKit(doing(write_twice), session=session)
    await kit.deliver(PAID)
    assert (kit.outcome_of(PAID), kit.published, await notes(session)) == ("PARKED", [], [])
    assert not isinstance(kit.error_of(PAID), HandlerMisuse)


@pytest.mark.parametrize("autoflush", [True, False])
async def test_what_the_handler_left_to_be_flushed_is_checked_before_the_event_is_done(
    session: AsyncSession, autoflush: bool
) -> None:
    session.sync_session.autoflush = autoflush

    class Base(DeclarativeBase): ...

    class Note(Base):
        __tablename__ = "notes"
        note: Mapped[str] = mapped_column(primary_key=True)

    async def add(tx: Transaction) -> None:
        tx.session.add(Note(note="written"))

    await session.execute(text("INSERT INTO notes VALUES ('written')"))
    kit = ConsumerKit(doing(add), session=session)
    await kit.deliver(PAID)
    assert (kit.outcome_of(PAID), kit.published, await notes(session)) == ("PARKED", [], ["written"])


async def test_a_savepoint_that_the_handler_left_open_is_undone_with_its_failure(session: AsyncSession) -> None:
    async def leave_open(tx: Transaction) -> None:
        await tx.session.begin_nested()
        await write(tx)
        raise Transient

    kit = ConsumerKit(doing(leave_open), session=session)
    await kit.deliver(PAID)
    assert (kit.outcome_of(PAID), await notes(session)) == ("PARKED", [])
    assert session.in_nested_transaction() is False
