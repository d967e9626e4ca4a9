"""Asking the Postgres log how far a group has got: once a second by somebody who waits, so on one connection."""

from typing import Any

from surefoot.log.port import TopicPartition
from surefoot.log.postgres.log import PostgresLog

WHERE = TopicPartition("things", 0)


async def connections(connection: Any) -> list[tuple[int, Any]]:
    """The server's processes for the log's own connection, and since when they are there."""
    rows = await connection.fetch(
        "SELECT pid, backend_start FROM pg_stat_activity "
        "WHERE datname = current_database() AND application_name = 'surefoot log'"
    )
    return [tuple(row) for row in rows]


async def test_however_often_it_is_asked_the_connection_is_the_same(log: PostgresLog, connection: Any) -> None:
    await log.group_offsets("group", "things")
    before = await connections(connection)

    for _ in range(10):
        await log.group_offsets("group", "things")

    assert len(before) == 1
    assert await connections(connection) == before


async def test_offsets_that_a_removed_topic_left_behind_are_not_told(log: PostgresLog, connection: Any) -> None:
    await connection.execute(
        "INSERT INTO surefoot.log_offsets (group_name, topic, partition, next_offset) VALUES ('group', 'things', 0, 4)"
    )
    assert await log.group_offsets("group", "things") == {WHERE: 4}

    await connection.execute("DELETE FROM surefoot.log_topics WHERE topic = 'things'")

    assert await connection.fetchval("SELECT count(*) FROM surefoot.log_offsets") == 1
    assert await log.group_offsets("group", "things") == {}
