"""The handlers of a batch share a transaction, and nothing else: what one has loaded or changed never meets the next as
something old. Each of these is the same as if every event had a transaction to itself."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

import asyncpg
import pytest
from sqlalchemy import ForeignKey, select, text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship, selectinload

from surefoot.consumer import Consumer, Transaction
from surefoot.events import Event
from surefoot.log.postgres.log import PostgresLog
from tests.support.consumer.failures import settled
from tests.support.consumer.processes import consumer_running, publish
from tests.support.event_types import ThingHappened

Part = Callable[[Transaction], Awaitable[None]]


class Base(DeclarativeBase):
    pass


class Article(Base):
    __tablename__ = "article"

    sku: Mapped[str] = mapped_column(primary_key=True)
    pieces: Mapped[int]
    remarks: Mapped[list["Remark"]] = relationship(back_populates="article")


class Remark(Base):
    __tablename__ = "remark"

    id: Mapped[int] = mapped_column(primary_key=True)
    sku: Mapped[str] = mapped_column(ForeignKey("article.sku"))
    article: Mapped[Article] = relationship(back_populates="remarks")


KEPT: list[Article | None] = []


async def look(tx: Transaction) -> None:
    """Articles and remarks know each other, so Python keeps them until its collector comes by."""
    asked = select(Article).options(selectinload(Article.remarks).selectinload(Remark.article))
    (article,) = (await tx.session.scalars(asked)).all()
    assert article.remarks[0].article is article


async def look_and_keep(tx: Transaction) -> None:
    KEPT.append(await tx.session.get(Article, "tea"))


async def take_three_by_object(tx: Transaction) -> None:
    article = await tx.session.get(Article, "tea")
    assert article is not None
    article.pieces -= 3


async def take_one_by_sql(tx: Transaction) -> None:
    await tx.session.execute(text("UPDATE article SET pieces = pieces - 1"))


async def take_one_by_connection(tx: Transaction) -> None:
    await (await tx.session.connection()).execute(text("UPDATE article SET pieces = pieces - 1"))


async def add_an_article(tx: Transaction) -> None:
    tx.session.add(Article(sku="coffee", pieces=20))


ORDERS: dict[str, tuple[Sequence[Part], int]] = {
    "loaded, changed by SQL, changed as an object": ((look, take_one_by_sql, take_three_by_object), 6),
    "kept by the handler": ((look_and_keep, take_one_by_sql, take_three_by_object), 6),
    "changed as an object, changed by SQL": ((take_three_by_object, take_one_by_sql), 6),
    "changed as an object, changed below the session": ((take_three_by_object, take_one_by_connection), 6),
    "added, changed below the session": ((add_an_article, take_one_by_connection), 9 + 19),
}


@pytest.mark.parametrize("batch", [1, 1000], ids=["one by one", "in one batch"])
@pytest.mark.parametrize("order", ORDERS)
async def test_handlers_of_a_batch_do_what_they_would_do_alone(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str, order: str, batch: int
) -> None:
    parts, expected = ORDERS[order]
    await lay_out(connection)
    consumer = Consumer("warehouse")

    @consumer.on(ThingHappened)
    async def handle(event: Event[ThingHappened], tx: Transaction) -> None:
        await parts[event.data.number](tx)

    await publish(log, *(ThingHappened(thing_id="a", number=number) for number in range(len(parts))))
    async with consumer_running(consumer, database_url, log, batch_records=batch, batch_first=batch):
        await settled(connection, PROCESSED=len(parts))
    assert await connection.fetchval("SELECT sum(pieces) FROM article") == expected


async def test_an_event_published_within_a_savepoint_of_the_connection_goes_with_it(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    await lay_out(connection)
    consumer = Consumer("warehouse")

    @consumer.on(ThingHappened)
    async def handle(event: Event[ThingHappened], tx: Transaction) -> None:
        below = await tx.session.connection()
        with suppress(ZeroDivisionError):
            async with below.begin_nested():
                await below.execute(text("UPDATE article SET pieces = 0"))
                tx.publish(ThingHappened(thing_id="told", number=1))
                _ = 1 // 0
        tx.publish(ThingHappened(thing_id="told", number=2))

    await publish(log, ThingHappened(thing_id="a", number=0))
    async with consumer_running(consumer, database_url, log):
        await settled(connection, PROCESSED=1)
    assert await connection.fetchval("SELECT sum(pieces) FROM article") == 10
    told = await connection.fetch("SELECT (payload ->> 'number')::int FROM surefoot.outbox WHERE key = 'told'")
    assert [row[0] for row in told] == [2]


async def lay_out(connection: asyncpg.Connection) -> None:
    await connection.execute(
        "CREATE TABLE article (sku text PRIMARY KEY, pieces int); INSERT INTO article VALUES ('tea', 10);"
        "CREATE TABLE remark (id int PRIMARY KEY, sku text); INSERT INTO remark VALUES (1, 'tea')"
    )
