"""What `outbox.add` adds to a transaction that inserts one domain row and commits: the same with and without it."""

import asyncio
import time

from sqlalchemy import BigInteger
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from bench.ground import Ground, order
from surefoot import outbox
from surefoot.database.connection import sqlalchemy_url


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


async def seconds_per_transaction(engine: AsyncEngine, *, writers: int, transactions: int, with_event: bool) -> float:
    """Both forms make the order's data and insert its row; one of them publishes it, too."""
    numbers = iter(range(transactions))

    async def writer() -> None:
        for number in numbers:
            data = order(number)
            async with AsyncSession(engine) as session, session.begin():
                session.add(
                    Order(
                        number=data.order_id,
                        customer=data.customer_id,
                        minor_units=data.total.minor_units,
                        note=data.note,
                    )
                )
                if with_event:
                    outbox.add(session, data)

    began = time.perf_counter()
    await asyncio.gather(*(writer() for _ in range(writers)))
    return (time.perf_counter() - began) / transactions
