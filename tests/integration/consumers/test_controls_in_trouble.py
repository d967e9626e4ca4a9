"""A control record is not lost through a trouble of the database: only what is wrong with the record itself makes a
dead letter of it."""

from typing import Any

import asyncpg
import pytest
from sqlalchemy.ext.asyncio import AsyncConnection

from surefoot.consumer_runtime import controls
from surefoot.consumer_runtime.metrics import CONTROLS
from surefoot.consumer_runtime.unit import Unit
from surefoot.log.postgres.log import PostgresLog
from tests.support.consumer.controls import (
    Mendable,
    answers,
    control,
    id_of,
    published,
    settled_as,
    tell,
)
from tests.support.consumer.effects import effects
from tests.support.consumer.failures import keys_together, letters
from tests.support.consumer.processes import consumer_running, outcomes, publish
from tests.support.event_types import ThingHappened
from tests.support.waiting import eventually

(KEY,) = keys_together(1)


async def test_a_control_record_waits_for_a_lock_that_somebody_holds_on_its_event(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    shop = Mendable(1)
    (event,) = await publish(log, ThingHappened(thing_id=KEY, number=1))
    async with consumer_running(shop.consumer, database_url, log):
        await settled_as(connection, [event], "DEAD")
        shop.broken.clear()
        replay, tried = control(event, "replay"), CONTROLS.labels("warehouse", "replay")
        before = tried._value.get()

        async def has_been_tried_thrice() -> bool:
            return bool(tried._value.get() >= before + 3)

        async with connection.transaction():
            await connection.execute("SELECT FROM surefoot.parked_events FOR UPDATE")
            await tell(log, topic, event, replay)
            await eventually(has_been_tried_thrice, what="two waits for the lock were in vain")
        assert await answers(connection, 1) == [(id_of(replay), "done")]
    assert await effects(connection) == [1]
    assert len(await letters(connection)) == 1  # of the death before
    assert await outcomes(connection, "warehouse") == {"PROCESSED": 2}


@pytest.mark.parametrize("moment", ["obeyed", "committed"])
async def test_a_control_record_whose_connection_is_lost_is_obeyed_on_another(
    database_url: str,
    connection: asyncpg.Connection,
    log: PostgresLog,
    topic: str,
    monkeypatch: pytest.MonkeyPatch,
    moment: str,
) -> None:
    lost: list[int] = []
    obeying: list[Unit] = []
    obey, commit = controls.Controls.obey, AsyncConnection.commit

    async def lose(unit: Unit) -> None:
        if not lost:
            lost.append(unit.driver.get_server_pid())  # type: ignore[attr-defined]  # asyncpg's own
            other = await asyncpg.connect(database_url)
            await other.fetchval("SELECT pg_terminate_backend($1, 5000)", lost[0])
            await other.close()

    async def obey_without(self: controls.Controls, unit: Unit, told: Any) -> Any:
        if moment == "obeyed":
            await lose(unit)
        else:
            obeying.append(unit)
        return await obey(self, unit, told)

    async def commit_without(on: AsyncConnection) -> None:
        if obeying:
            await lose(obeying.pop())
        await commit(on)

    shop = Mendable(1)
    (event,) = await publish(log, ThingHappened(thing_id=KEY, number=1))
    async with consumer_running(shop.consumer, database_url, log):
        await settled_as(connection, [event], "DEAD")
        shop.broken.clear()
        monkeypatch.setattr(controls.Controls, "obey", obey_without)
        monkeypatch.setattr(AsyncConnection, "commit", commit_without)
        replay = control(event, "replay")
        await tell(log, topic, event, replay)
        assert await answers(connection, 1) == [(id_of(replay), "done")]
    assert len(lost) == 1
    assert await effects(connection) == [1]
    assert len(await letters(connection)) == 1


@pytest.mark.parametrize("error", [ValueError("not to be read"), asyncpg.DataError("not to be stored")])
async def test_a_control_record_that_cannot_be_obeyed_is_a_dead_letter_and_holds_nothing(
    database_url: str,
    connection: asyncpg.Connection,
    log: PostgresLog,
    topic: str,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
) -> None:
    async def obey(self: controls.Controls, unit: Unit, told: Any) -> Any:
        raise error

    monkeypatch.setattr(controls.Controls, "obey", obey)
    (event,) = await publish(log, ThingHappened(thing_id=KEY, number=1))
    await tell(log, topic, event, control(event, "inspect"))
    (later,) = await publish(log, ThingHappened(thing_id=KEY, number=2))
    async with consumer_running(Mendable().consumer, database_url, log):
        await settled_as(connection, [later], "PROCESSED")
    assert await outcomes(connection, "warehouse") == {"DEAD": 1, "PROCESSED": 2}
    (letter,) = await published(connection, topic + ".dlq")
    assert letter["_headers"]["surefoot-error"] == f"The control record could not be obeyed: {error}"
