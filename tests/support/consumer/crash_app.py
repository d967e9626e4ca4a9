"""The consumer that the crash tests start as processes: one row for each event, and every tenth event is told on.

The test says by the environment which topic it reads, and by a table which events fail for now. An event may also carry
a misdeed in its note: what a handler should never do with its transaction.
"""

import os
from datetime import timedelta
from typing import cast

from sqlalchemy import Identity, text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from surefoot.consumer import Consumer, Transaction
from surefoot.consumer.consumer import WhenDead
from surefoot.events import Event
from surefoot.retry import Retry
from tests.support.event_types import ThingHappened, ThingTold, things
from tests.support.topic_settings import set_topic

TOPIC = "SUREFOOT_TEST_TOPIC"
ATTEMPTS = "SUREFOOT_TEST_ATTEMPTS"
REST_S = "SUREFOOT_TEST_REST_S"
WHEN_DEAD = "SUREFOOT_TEST_WHEN_DEAD"
FAULTS = "SUREFOOT_TEST_FAULTS"
topic = os.environ.get(TOPIC, things.name)
set_topic(things, name=topic)
rest = timedelta(seconds=float(os.environ.get(REST_S, "0.1")))
consumer = Consumer(
    topic,  # a group of this test's own
    retry=Retry(attempts=int(os.environ.get(ATTEMPTS, "1000")), first=rest, longest=4 * rest),
    when_dead=cast(WhenDead, os.environ.get(WHEN_DEAD, "hold")),
)
MEMBER = str(os.getpid())
IS_FAULTY = text("SELECT EXISTS (SELECT FROM faults WHERE key = :key AND number = :number)")


class Base(DeclarativeBase):
    pass


class EffectRow(Base):
    """Written when the session is flushed, in the order in which they were added."""

    __tablename__ = "effects"

    n: Mapped[int] = mapped_column(Identity(), primary_key=True)
    event_id: Mapped[str]
    key: Mapped[str]
    number: Mapped[int]
    member: Mapped[str]


class OutOfLuck(Exception):
    """The table says that this event fails, for now."""


@consumer.on(ThingHappened)
async def have_effect(event: Event[ThingHappened], tx: Transaction) -> None:
    data = event.data
    if FAULTS in os.environ and await tx.session.scalar(IS_FAULTY, {"key": event.key, "number": data.number}):
        raise OutOfLuck(f"number {data.number} of {event.key} fails for now")
    tx.session.add(EffectRow(event_id=event.id, key=event.key, number=data.number, member=MEMBER))
    if data.number % 10 == 0:
        tx.publish(ThingTold(thing_id=event.key, number=data.number))
    if data.note:
        await misbehave(data.note, tx)


async def misbehave(how: str, tx: Transaction) -> None:
    await tx.session.flush()
    if how == "commit":
        await tx.session.execute(text("COMMIT"))
    elif how == "rollback behind the session's back":
        raw = await (await tx.session.connection()).get_raw_connection()
        await raw.driver_connection.execute("ROLLBACK; BEGIN")  # type: ignore[union-attr]  # it is open
    else:
        raise ValueError(f"no such misdeed: {how}")
