"""What happens to records that are past their topic's retention, and to readers who wanted them."""

from typing import Any

import pytest

from surefoot.log.port import TopicPartition
from surefoot.log.postgres.line import RecordsGone
from surefoot.log.postgres.log import PostgresLog
from surefoot.log.postgres.publisher import PostgresPublisher
from surefoot.log.postgres.subscription import PostgresSubscription
from tests.support.event_log.members import plain

WHERE = TopicPartition("things", 0)


async def age(connection: Any, up_to: int, by: str = "2 hours") -> None:
    await connection.execute(
        f"UPDATE surefoot.log_records SET stored_at = stored_at - interval '{by}' WHERE log_offset < $1", up_to
    )


async def test_what_is_past_retention_is_removed_and_nothing_else(
    log: PostgresLog, publisher: PostgresPublisher, connection: Any
) -> None:
    await publisher.publish(WHERE, plain(b"0", b"1", b"2"))
    await age(connection, up_to=2)

    assert await log.expire() == 2
    assert await log.expire() == 0

    assert await connection.fetchval("SELECT array_agg(value) FROM surefoot.log_records") == [b"2"]
    first = await connection.fetchval("SELECT first_offset FROM surefoot.log_partitions WHERE partition = 0")
    assert first == 2


async def test_much_is_removed_in_batches(log: PostgresLog, publisher: PostgresPublisher, connection: Any) -> None:
    await publisher.publish(WHERE, plain(*[b"x"] * 12_000))
    await age(connection, up_to=11_500)

    assert await log.expire() == 11_500
    assert await connection.fetchval("SELECT count(*) FROM surefoot.log_records") == 500


async def test_offsets_go_on_when_everything_was_removed(
    log: PostgresLog, publisher: PostgresPublisher, connection: Any
) -> None:
    await publisher.publish(WHERE, plain(b"0", b"1"))
    await age(connection, up_to=2)
    assert await log.expire() == 2

    await publisher.publish(WHERE, plain(b"2"))

    assert (await log.end_offsets("things"))[WHERE] == 3


async def test_a_group_that_missed_removed_records_is_told_which(
    log: PostgresLog, publisher: PostgresPublisher, subscription: PostgresSubscription, connection: Any
) -> None:
    await publisher.publish(WHERE, plain(b"0", b"1", b"2", b"3"))
    await subscription.poll()
    await subscription.commit({WHERE: 1})
    await subscription.seek(WHERE, 1)
    await age(connection, up_to=3)
    await log.expire()

    with pytest.raises(RecordsGone, match="Offsets 1 to 2 of things/0 are gone") as raised:
        await subscription.poll()

    await subscription.seek(WHERE, raised.value.first)
    found = await subscription.poll()
    assert [record.value for record in found[WHERE]] == [b"3"]


async def test_a_new_group_starts_at_the_oldest_that_is_kept(
    log: PostgresLog, publisher: PostgresPublisher, connection: Any
) -> None:
    await publisher.publish(WHERE, plain(b"0", b"1"))
    await age(connection, up_to=1)
    await log.expire()
    late = await log.subscribe("late", ["things"])
    try:
        found = await late.poll()
    finally:
        await late.close()

    assert [record.value for record in found[WHERE]] == [b"1"]
