"""The counts of groups are those of their letters, whoever changes what, at once and in whatever order."""

import asyncio
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import cast

import asyncpg
import pytest

from surefoot.database.connection import Connection
from tests.support.dlq.letter_rows import NOON, insert, letter
from tests.support.waiting import eventually

STATUSES = ("OPEN", "REPLAYING", "REPLAYED", "DISCARD_REQUESTED", "DISCARDED", "SUPERSEDED")


async def counts(connection: asyncpg.Connection) -> dict[str, dict[str, int]]:
    """As the groups say; what is 0 is left out."""
    rows = await connection.fetch("SELECT * FROM surefoot.dlq_groups")
    found = {row["fingerprint"]: {s: row[s.lower()] for s in STATUSES if row[s.lower()]} for row in rows}
    return {fingerprint: told for fingerprint, told in found.items() if told}


async def counted(connection: asyncpg.Connection) -> dict[str, dict[str, int]]:
    """As they are, counted one by one."""
    found: dict[str, dict[str, int]] = {}
    for row in await connection.fetch(
        "SELECT fingerprint, status::text, count(*) FROM surefoot.dlq_events GROUP BY 1, 2"
    ):
        found.setdefault(row[0], {})[row[1]] = row[2]
    return found


async def put(connection: asyncpg.Connection, *numbers: int, fingerprint: str = "f", **changed: object) -> None:
    await insert(
        cast(Connection, connection), [letter(number, fingerprint=fingerprint, **changed) for number in numbers]
    )


async def test_letters_that_come_are_counted(connection: asyncpg.Connection) -> None:
    await put(connection, 1, 2, 3)
    await put(connection, 4, fingerprint="g")
    assert await counts(connection) == {"f": {"OPEN": 3}, "g": {"OPEN": 1}}


async def test_a_change_of_status_moves_the_count(connection: asyncpg.Connection) -> None:
    await put(connection, 1, 2, 3)
    await connection.execute("UPDATE surefoot.dlq_events SET status = 'REPLAYING' WHERE log_offset < 3")
    await connection.execute("UPDATE surefoot.dlq_events SET status = 'REPLAYED' WHERE log_offset = 1")
    assert await counts(connection) == {"f": {"OPEN": 1, "REPLAYING": 1, "REPLAYED": 1}}


async def test_a_letter_that_fails_for_another_cause_changes_its_group(connection: asyncpg.Connection) -> None:
    await put(connection, 1, 2)
    await connection.execute("UPDATE surefoot.dlq_events SET fingerprint = 'g', error = 'New.' WHERE log_offset = 1")
    assert await counts(connection) == {"f": {"OPEN": 1}, "g": {"OPEN": 1}}
    assert await connection.fetchval("SELECT sentence FROM surefoot.dlq_groups WHERE fingerprint = 'g'") == "New."


async def test_letters_that_go_are_taken_off(connection: asyncpg.Connection) -> None:
    await put(connection, 1, 2, 3)
    await connection.execute("DELETE FROM surefoot.dlq_events WHERE log_offset <> 2")
    assert await counts(connection) == {"f": {"OPEN": 1}}


async def test_several_statements_of_one_transaction_are_added_up(connection: asyncpg.Connection) -> None:
    async with connection.transaction():
        await put(connection, 1, 2, 3)
        await connection.execute("UPDATE surefoot.dlq_events SET status = 'REPLAYING'")
        await connection.execute("DELETE FROM surefoot.dlq_events WHERE log_offset = 3")
        await connection.execute("UPDATE surefoot.dlq_events SET fingerprint = 'g' WHERE log_offset = 2")
    assert await counts(connection) == {"f": {"REPLAYING": 1}, "g": {"REPLAYING": 1}}


async def test_what_is_rolled_back_is_not_counted(connection: asyncpg.Connection) -> None:
    await put(connection, 1)
    with pytest.raises(ZeroDivisionError):
        async with connection.transaction():
            await put(connection, 2)
            raise ZeroDivisionError
    async with connection.transaction():
        await put(connection, 3)
        with pytest.raises(ZeroDivisionError):
            async with connection.transaction():  # a savepoint
                await put(connection, 4)
                await connection.execute("UPDATE surefoot.dlq_events SET status = 'REPLAYED'")
                raise ZeroDivisionError
    assert await counts(connection) == {"f": {"OPEN": 2}}


async def test_a_change_that_moves_no_count_and_tells_nothing_leaves_the_group_alone(
    connection: asyncpg.Connection,
) -> None:
    await put(connection, 1, 2)
    before = await connection.fetchval("SELECT xmin::text FROM surefoot.dlq_groups")
    await connection.execute("UPDATE surefoot.dlq_events SET job_id = gen_random_uuid(), attempts = 9")
    assert await connection.fetchval("SELECT xmin::text FROM surefoot.dlq_groups") == before


async def test_a_group_tells_the_latest_error_and_when_it_began(connection: asyncpg.Connection) -> None:
    await put(connection, 5, 4, error="The fourth or the fifth.")
    await put(connection, 6, error="The sixth.", reason="out_of_attempts")
    await put(connection, 2, error="Late in coming.")
    row = await connection.fetchrow("SELECT * FROM surefoot.dlq_groups")
    assert (row["sentence"], row["reason"]) == ("The sixth.", "out_of_attempts")
    assert row["first_at"] == NOON + timedelta(seconds=4)  # as when it began: pages go by it
    assert (row["oldest_at"], row["last_at"]) == (NOON + timedelta(seconds=2), NOON + timedelta(seconds=6))
    assert row["mixed"]


async def test_a_letter_that_fails_again_is_the_latest_of_its_group(connection: asyncpg.Connection) -> None:
    await put(connection, 1, 2)
    later = NOON + timedelta(hours=1)
    await connection.execute(
        "UPDATE surefoot.dlq_events SET failed_at = $1, error = 'Again.' WHERE log_offset = 1", later
    )
    row = await connection.fetchrow("SELECT * FROM surefoot.dlq_groups")
    assert (row["sentence"], row["last_at"], row["open"], row["mixed"]) == ("Again.", later, 2, False)


async def test_a_letter_that_fails_again_for_another_reason_mixes_its_group(connection: asyncpg.Connection) -> None:
    await put(connection, 1, 2)
    await connection.execute("UPDATE surefoot.dlq_events SET reason = 'out_of_attempts' WHERE log_offset = 1")
    row = await connection.fetchrow("SELECT mixed, open FROM surefoot.dlq_groups")
    assert (row["mixed"], row["open"]) == (True, 2)


async def test_an_upsert_counts_what_it_inserts_and_what_it_changes(connection: asyncpg.Connection) -> None:
    await put(connection, 1, status="REPLAYED")
    await connection.execute(
        """INSERT INTO surefoot.dlq_events AS d (id, consumer, source, event_id, topic, partition, log_offset, key,
               recorded_at, headers, reason, error_type, error, fingerprint, held, letter_id, first_failed_at,
               failed_at)
           SELECT gen_random_uuid(), 'warehouse', '/tests', 'event-' || n, 't', 0, n, 'k', now(), '[]', 'permanent',
               'E', 'e', 'g', true, 'l', now(), now() FROM generate_series(1, 3) n
           ON CONFLICT (event_id, consumer, source) DO UPDATE SET status = 'OPEN', fingerprint = excluded.fingerprint"""
    )
    assert await counts(connection) == {"g": {"OPEN": 3}}


async def test_no_note_is_left_behind(connection: asyncpg.Connection) -> None:
    await put(connection, 1, 2)
    await connection.execute("UPDATE surefoot.dlq_events SET status = 'REPLAYED'")
    await connection.execute("DELETE FROM surefoot.dlq_events")
    assert await connection.fetchval("SELECT count(*) FROM surefoot.dlq_group_changes") == 0
    assert await counts(connection) == {}


async def test_a_group_that_was_removed_begins_anew(connection: asyncpg.Connection) -> None:
    await put(connection, 1)
    await connection.execute("DELETE FROM surefoot.dlq_events")
    await connection.execute("DELETE FROM surefoot.dlq_groups")
    await put(connection, 2)
    assert await connection.fetchval("SELECT first_at FROM surefoot.dlq_groups") == NOON + timedelta(seconds=2)


@asynccontextmanager
async def connections(url: str, many: int) -> AsyncIterator[list[asyncpg.Connection]]:
    opened = [await asyncpg.connect(url, server_settings={"deadlock_timeout": "100ms"}) for _ in range(many)]
    try:
        yield opened
    finally:
        for one in opened:
            await one.close()


async def change_both_groups(url: str, *, first: str = "SELECT 1") -> None:
    """Two transactions. Each changes a letter of the one group, waits until the other has changed one of the other
    group, and then changes one there itself. `first` is what each begins with."""
    change = "UPDATE surefoot.dlq_events SET status = 'REPLAYING' WHERE log_offset = $1"
    both = asyncio.Barrier(2)

    async def work(driver: asyncpg.Connection, here: int, there: int) -> None:
        async with driver.transaction():
            await driver.execute(first)
            await driver.execute(change, here)
            async with both:
                pass
            await driver.execute(change, there)

    async with connections(url, 2) as (one, other):
        await asyncio.wait_for(asyncio.gather(work(one, 0, 1), work(other, 3, 2)), 30)


async def test_two_transactions_that_touch_the_same_groups_in_different_order_do_not_deadlock(
    connection: asyncpg.Connection, database_url: str
) -> None:
    for number, fingerprint in enumerate("fgfg"):
        await put(connection, number, fingerprint=fingerprint)
    await change_both_groups(database_url)
    assert await counts(connection) == {"f": {"REPLAYING": 2}, "g": {"REPLAYING": 2}}


async def test_the_same_two_deadlock_where_letters_are_counted_with_each_statement(
    connection: asyncpg.Connection, database_url: str
) -> None:
    for number, fingerprint in enumerate("fgfg"):
        await put(connection, number, fingerprint=fingerprint)
    with pytest.raises(asyncpg.DeadlockDetectedError):
        await change_both_groups(database_url, first="SET CONSTRAINTS ALL IMMEDIATE")


async def test_a_transaction_that_takes_its_time_keeps_nobody_from_its_groups(
    connection: asyncpg.Connection, database_url: str
) -> None:
    await put(connection, 1, 2)
    async with connections(database_url, 1) as (slow,):
        async with slow.transaction():
            await slow.execute("UPDATE surefoot.dlq_events SET status = 'REPLAYING' WHERE log_offset = 1")
            await asyncio.wait_for(put(connection, 3), 10)
            assert await counts(connection) == {"f": {"OPEN": 3}}
    assert await counts(connection) == {"f": {"OPEN": 2, "REPLAYING": 1}}


async def test_two_that_begin_the_same_new_groups_at_once_count_both(
    connection: asyncpg.Connection, database_url: str
) -> None:
    groups = [f"f{number}" for number in range(20)]
    both = asyncio.Barrier(2)

    async def work(driver: asyncpg.Connection, first: int, order: list[str]) -> None:
        async with driver.transaction():
            for number, fingerprint in enumerate(order):
                await put(driver, first + number, fingerprint=fingerprint)
            async with both:
                pass

    async with connections(database_url, 2) as (one, other):
        await asyncio.wait_for(asyncio.gather(work(one, 0, groups), work(other, 100, groups[::-1])), 30)
    assert await counts(connection) == {fingerprint: {"OPEN": 2} for fingerprint in groups}


@pytest.mark.slow
async def test_many_at_once_in_any_order_leave_counts_that_are_right(
    connection: asyncpg.Connection, database_url: str
) -> None:
    """Inserts, changes of status and cause, removals, some rolled back, on eight connections. Each changes letters of
    its own, so that only groups are shared: a deadlock could only be theirs."""
    workers, rounds = 8, 40

    async def work(number: int, driver: asyncpg.Connection) -> None:
        chance = random.Random(number)
        own = range(number * 1000, number * 1000 + 1000)
        free = iter(own)
        for _ in range(rounds):
            transaction = driver.transaction()
            await transaction.start()
            for _ in range(chance.randint(1, 4)):
                await change(driver, chance, own, free)
            await (transaction.rollback() if chance.random() < 0.2 else transaction.commit())

    async def change(driver: asyncpg.Connection, chance: random.Random, own: range, free: Iterator[int]) -> None:
        groups = [f"f{chance.randrange(10)}" for _ in range(3)]
        match chance.randrange(4):
            case 0:
                rows = [letter(next(free), fingerprint=fingerprint) for fingerprint in groups]
                await insert(cast(Connection, driver), rows)
            case 1:
                await driver.execute(
                    """UPDATE surefoot.dlq_events SET status = $3::text::surefoot.dlq_status
                       WHERE log_offset BETWEEN $1 AND $2 AND log_offset % 3 = 0""",
                    own[0], own[-1], chance.choice(STATUSES),
                )  # fmt: skip
            case 2:
                await driver.execute(
                    """UPDATE surefoot.dlq_events SET fingerprint = $3
                       WHERE log_offset BETWEEN $1 AND $2 AND log_offset % 5 = 0""",
                    own[0], own[-1], groups[0],
                )  # fmt: skip
            case _:
                await driver.execute(
                    "DELETE FROM surefoot.dlq_events WHERE log_offset BETWEEN $1 AND $2 AND log_offset % 7 = 0",
                    own[0], own[-1],
                )  # fmt: skip

    async with connections(database_url, workers) as drivers:
        await asyncio.wait_for(asyncio.gather(*(work(at, driver) for at, driver in enumerate(drivers))), 120)

    found = await counted(connection)
    assert len(found) >= 5
    assert await counts(connection) == found


async def test_the_check_of_the_counts_sees_one_that_is_wrong(connection: asyncpg.Connection) -> None:
    await put(connection, 1, 2)
    await connection.execute("UPDATE surefoot.dlq_groups SET open = 3")
    assert await counts(connection) != await counted(connection)


async def test_a_commit_waits_for_the_one_before_it_and_no_longer(
    connection: asyncpg.Connection, database_url: str
) -> None:
    """Somebody has the group locked, as an alert does that marks it: whoever commits waits, and goes on."""
    await put(connection, 1)
    async with connections(database_url, 2) as (holder, writer):
        async with holder.transaction():
            await holder.execute("UPDATE surefoot.dlq_groups SET told_at = now()")
            waiting = asyncio.create_task(put(writer, 2))

            async def is_waiting() -> bool:
                return bool(
                    await connection.fetchval(
                        "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND locktype = 'transactionid')"
                    )
                )

            await eventually(is_waiting, what="the commit waits for the lock")
        await asyncio.wait_for(waiting, 10)
    assert await counts(connection) == {"f": {"OPEN": 2}}
