"""What an event says about a person is nowhere but in the event: not in errors, rows, letters' headers or log lines."""

import asyncpg
import structlog

from surefoot.consumer import Consumer, Transaction
from surefoot.events import Event
from surefoot.log.postgres.log import PostgresLog
from tests.support.consumer.failures import AT_ONCE, letters, settled
from tests.support.consumer.processes import consumer_running, publish
from tests.support.event_types import ThingSentHome

STREET = "17 Analytical Lane"


async def test_an_error_that_quotes_personal_data_is_kept_and_logged_without_them(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    consumer = Consumer("warehouse", retry=AT_ONCE)

    @consumer.on(ThingSentHome)
    async def send(event: Event[ThingSentHome], tx: Transaction) -> None:
        raise ValueError(f"nobody lives at {event.data.street} any more")

    with structlog.testing.capture_logs() as said:
        await publish(log, ThingSentHome(thing_id="a", street=STREET))
        async with consumer_running(consumer, database_url, log):
            await settled(connection, DEAD=1)

    (letter,) = await letters(connection)
    row = await connection.fetchrow("SELECT last_error, failures::text FROM surefoot.parked_events")
    assert letter["surefoot-error"] == row["last_error"] == "nobody lives at ••• any more"
    told = [text for name, text in letter.items() if name.startswith("surefoot-") and name != "surefoot-origin-headers"]
    assert STREET not in "".join([*told, row["failures"]])
    failed = [line for line in said if "nobody lives at •••" in str(line)]
    assert failed
    assert STREET not in str(said)
    assert STREET.encode() in letter["body"]  # byte for byte: a replay needs it
