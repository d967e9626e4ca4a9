"""Who owns a partition of the Postgres log, and what an owner that was replaced can no longer do."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from surefoot.errors import LeaseLost
from surefoot.log.port import TopicPartition
from surefoot.log.postgres.log import PostgresLog
from surefoot.log.postgres.publisher import PostgresPublisher
from surefoot.log.postgres.subscription import PostgresSubscription
from tests.support.event_log.members import plain
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow

WHERE = TopicPartition("things", 0)


@pytest.mark.parametrize("change", ["owner = 'another'", "fence = fence + 2"])
async def test_an_owner_that_was_replaced_unawares_stores_nothing(
    publisher: PostgresPublisher, subscription: PostgresSubscription, connection: Any, change: str
) -> None:
    await publisher.publish(WHERE, plain(b"0"))
    await subscription.poll()
    await connection.execute(f"UPDATE surefoot.leases SET {change} WHERE unit = 0")

    with pytest.raises(LeaseLost, match="things/0"):
        await subscription.commit({WHERE: 1, TopicPartition("things", 1): 0})

    assert await connection.fetchval("SELECT count(*) FROM surefoot.log_offsets") == 0


async def test_a_lost_lease_stops_the_partition_being_delivered(
    log: PostgresLog, publisher: PostgresPublisher, connection: Any
) -> None:
    revoked: list[frozenset[TopicPartition]] = []
    told = asyncio.Event()

    async def on_revoked(partitions: frozenset[TopicPartition]) -> None:
        revoked.append(partitions)
        told.set()

    subscription = await log.subscribe("group", ["things"], on_revoked=on_revoked)
    try:
        await subscription.poll(timeout=timedelta(0))
        assert subscription.assigned() == {WHERE, TopicPartition("things", 1)}
        await connection.execute(
            "UPDATE surefoot.leases SET owner = 'another', fence = fence + 1, "
            "lease_until = now() + interval '1 hour' WHERE unit = 0"
        )
        async with asyncio.timeout(10):
            await told.wait()
        await publisher.publish(WHERE, plain(b"not for us"))
        await publisher.publish(TopicPartition("things", 1), plain(b"for us"))

        found = await subscription.poll(timeout=timedelta(seconds=5))

        assert revoked == [frozenset({WHERE})]
        assert list(found) == [TopicPartition("things", 1)]
    finally:
        await subscription.close()


async def test_a_partition_lost_and_won_again_is_announced_again(
    log: PostgresLog, publisher: PostgresPublisher, connection: Any
) -> None:
    told: list[tuple[str, int]] = []

    async def on_assigned(partitions: frozenset[TopicPartition]) -> None:
        told.extend(("assigned", one.partition) for one in sorted(partitions))

    async def on_revoked(partitions: frozenset[TopicPartition]) -> None:
        told.extend(("revoked", one.partition) for one in sorted(partitions))

    await publisher.publish(WHERE, plain(b"0", b"1"))
    subscription = await log.subscribe("group", ["things"], on_assigned=on_assigned, on_revoked=on_revoked)
    try:
        await subscription.poll()
        await subscription.commit({WHERE: 1})
        # As if another member had come and gone while we were frozen: ours again, under a higher fence.
        await connection.execute("UPDATE surefoot.leases SET fence = fence + 2 WHERE unit = 0")

        async def again() -> Any:
            found = await subscription.poll(timeout=timedelta(milliseconds=100))
            return [record.value for record in found.get(WHERE, [])]

        assert await eventually(again, what="the uncommitted record comes again") == [b"1"]
        await subscription.commit({WHERE: 2})
    finally:
        await subscription.close()
    assert told[:4] == [("assigned", 0), ("assigned", 1), ("revoked", 0), ("assigned", 0)]


async def test_a_surplus_partition_is_given_up_only_after_on_revoked_has_ended(
    log: PostgresLog, connection: Any
) -> None:
    started, may_end = asyncio.Event(), asyncio.Event()

    async def on_revoked(_: frozenset[TopicPartition]) -> None:
        started.set()
        await may_end.wait()

    first = await log.subscribe("group", ["things"], on_revoked=on_revoked)
    try:
        await first.poll(timeout=timedelta(0))
        second = await log.subscribe("group", ["things"])
        try:
            async with asyncio.timeout(10):
                await started.wait()
            owners = await connection.fetchval("SELECT count(DISTINCT owner) FROM surefoot.leases")
            assert owners == 1

            may_end.set()

            async def shared() -> bool:
                await second.poll(timeout=timedelta(milliseconds=50))
                return len(second.assigned()) == 1

            await eventually(shared, what="the second member has its share")
            assert len(first.assigned()) == 1
        finally:
            await second.close()
    finally:
        may_end.set()
        await first.close()


async def test_a_member_that_died_is_replaced_when_its_lease_has_run_out(
    log: PostgresLog, subscription: PostgresSubscription, connection: Any
) -> None:
    await subscription.poll(timeout=timedelta(0))
    await connection.execute("""
        UPDATE surefoot.leases SET owner = 'dead', fence = fence + 1, lease_until = now() + interval '1 second'""")
    await connection.execute("DELETE FROM surefoot.lease_members")

    async def all_ours() -> bool:
        await subscription.poll(timeout=timedelta(milliseconds=100))
        owners = await connection.fetch("SELECT owner FROM surefoot.leases WHERE owner <> 'dead'")
        return len(owners) == 2 and len(subscription.assigned()) == 2

    await eventually(all_ours, what="both partitions taken over")
