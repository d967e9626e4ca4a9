"""Two records nobody can take among ten thousand good ones: the two are FAILED with a sentence, the others do not
wait.
"""

import asyncpg
import pytest

from surefoot.log.kafka.log import KafkaLog
from surefoot.testing.checkers import out_of_order, split_key
from tests.crash.conftest import StartRelay
from tests.support.relay import journal as ground
from tests.support.relay.processes import as_seen, read_all, statuses
from tests.support.waiting import eventually

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

POISON = """
    UPDATE surefoot.outbox_events e SET {change}
    FROM (SELECT min(position) AS position FROM surefoot.outbox_events WHERE key = $1) head
    WHERE e.position = head.position RETURNING e.event_id
"""


@pytest.mark.crowd
@pytest.mark.promise("P6a")
async def test_two_poison_records_among_ten_thousand(
    database_url: str, start: StartRelay, connection: asyncpg.Connection, log: KafkaLog, topic: str
) -> None:
    await ground.write_many(database_url, events=9_990, keys=2_000, writers=8, seed=5)
    await ground.write(connection, "large")
    await ground.write(connection, "lost")
    for key in ("large", "large", "lost", "lost"):
        await ground.write(connection, key)
    for n in range(4):
        await ground.write(connection, f"more-{n}")
    large = await connection.fetchval(POISON.format(change="body = convert_to(repeat('x', 2097152), 'UTF8')"), "large")
    lost = await connection.fetchval(POISON.format(change="topic = 'no.such.topic'"), "lost")
    # The key of an event on another topic is another key; held is what is behind it on its own topic.
    await connection.execute("UPDATE surefoot.outbox_events SET topic = 'no.such.topic' WHERE key = 'lost'")

    async def settled() -> bool:
        return await statuses(connection) == {"FAILED": 2, "HELD": 4, "PUBLISHED": 9_994}

    await start()
    await eventually(settled, what="two are FAILED, the four behind them wait, all others are published")

    failed = {
        row["event_id"]: row for row in await connection.fetch("SELECT * FROM surefoot.outbox WHERE status = 'FAILED'")
    }
    assert failed.keys() == {large, lost}
    assert "2,097" in failed[large]["last_error"]
    assert "no topic 'no.such.topic'" in failed[lost]["last_error"]
    assert {row["attempts"] for row in failed.values()} == {3}
    held = await connection.fetch("SELECT key, held FROM surefoot.outbox WHERE status = 'HELD' ORDER BY key")
    assert [(row["key"], row["held"]) for row in held] == [("large", True)] * 2 + [("lost", True)] * 2

    seen = as_seen(await read_all(log, topic))
    assert len({event.event_id for event in seen}) == 9_994
    assert out_of_order(await ground.committed(connection), seen) == []
    assert split_key(seen) == []


@pytest.mark.promise("P6a")
async def test_the_good_ones_arrive_while_the_bad_ones_are_still_being_tried(
    database_url: str, start: StartRelay, connection: asyncpg.Connection, log: KafkaLog, topic: str
) -> None:
    await ground.write(connection, "lost")
    await connection.execute("UPDATE surefoot.outbox_events SET topic = 'no.such.topic'")
    await ground.write_many(database_url, events=1_000, keys=100, writers=4, seed=6)

    async def good_ones_out() -> bool:
        return (await statuses(connection)).get("PUBLISHED") == 1_000

    # An hour between attempts: whoever waits for the bad one waits for ever.
    await start(environment={"SUREFOOT_RELAY_RETRY_MIN": "PT3600S", "SUREFOOT_RELAY_RETRY_MAX": "PT3600S"})
    await eventually(good_ones_out, what="the thousand good ones are published")
    row = await connection.fetchrow("SELECT status, attempts FROM surefoot.outbox_events WHERE key = 'lost'")
    assert row is not None
    assert (row["status"], row["attempts"]) == ("PENDING", 1)
