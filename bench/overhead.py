"""What `outbox.add` adds to a transaction that inserts one domain row and commits: the same with and without it."""

import asyncio
import statistics
import time
from collections.abc import Iterator

from sqlalchemy import BigInteger
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from bench.ground import Ground, order
from surefoot import outbox
from surefoot.database.address import sqlalchemy_url


class Base(DeclarativeBase):
    pass


class Order(Base):
    """A domain row, made from the same data as its event."""

    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    number: Mapped[str]
    customer: Mapped[str]
    minor_units: Mapped[int]
    note: Mapped[str]


async def prepare(where: Ground) -> AsyncEngine:
    engine = create_async_engine(sqlalchemy_url(where.url), pool_size=16, max_overflow=0)
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)
    return engine


async def added_alone(engine: AsyncEngine, transactions: int) -> float:
    """One writer: turn about, transaction by transaction, so that the machine's moods hit both forms alike."""
    took: dict[bool, list[float]] = {False: [], True: []}
    for number in range(transactions):
        for with_event in (False, True) if number % 2 else (True, False):
            began = time.perf_counter()
            await _transact(engine, number, with_event=with_event)
            took[with_event].append(time.perf_counter() - began)
    return statistics.median(took[True]) / statistics.median(took[False]) - 1


async def added_together(engine: AsyncEngine, *, writers: int, transactions: int, with_event_first: bool) -> float:
    """Many writers: all of them with, then all of them without; beside each other they would share their waits."""
    took = {}
    for with_event in (True, False) if with_event_first else (False, True):
        numbers = iter(range(transactions))

        async def writer(numbers: Iterator[int] = numbers, with_event: bool = with_event) -> None:
            for number in numbers:
                await _transact(engine, number, with_event=with_event)

        began = time.perf_counter()
        await asyncio.gather(*(writer() for _ in range(writers)))
        took[with_event] = time.perf_counter() - began
    return took[True] / took[False] - 1


async def _transact(engine: AsyncEngine, number: int, *, with_event: bool) -> None:
    """Both forms make the order's data and insert its row; one of them publishes it, too."""
    data = order(number)
    async with AsyncSession(engine) as session, session.begin():
        row = Order(number=data.order_id, customer=data.customer_id, minor_units=data.total.minor_units, note=data.note)
        session.add(row)
        if with_event:
            outbox.add(session, data)
