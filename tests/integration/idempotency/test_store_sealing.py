"""The history only grows, is sealed in batches, and tells who changed it."""

import asyncio
import re
import uuid
from datetime import timedelta

import asyncpg
import pytest

from surefoot.database import locks
from surefoot.idempotency.store import Store, sealing
from surefoot.idempotency.values import Note
from tests.support.idempotency.store_requests import SETTINGS, answered, asked, kept
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow

A_DAY = timedelta(days=1)
ADD_LINE = "INSERT INTO surefoot.idempotency_history (key_hash, tenant, fence, what) VALUES ('', 'late', 1, 'claimed')"


async def sealed(store: Store, lines: int) -> None:
    """Lines are sealed a second after they were written."""
    count = 0

    async def enough() -> bool:
        nonlocal count
        count += await store.seal()
        return count >= lines

    await eventually(enough, what=f"{lines} lines are sealed")
    assert count == lines


async def tamper(connection: asyncpg.Connection, statement: str) -> None:
    """As a superuser could: the table's triggers do not fire."""
    await connection.execute("SET session_replication_role = replica")
    await connection.execute(statement)
    await connection.execute("RESET session_replication_role")


async def make_older(connection: asyncpg.Connection, by: timedelta) -> None:
    await tamper(connection, f"UPDATE surefoot.idempotency_history SET at = at - interval '{by.total_seconds()} s'")


async def test_lines_cannot_be_changed_or_removed(store: Store, connection: asyncpg.Connection) -> None:
    await answered(store, asked())
    for statement in (
        "UPDATE surefoot.idempotency_history SET what = 'forgotten'",
        "DELETE FROM surefoot.idempotency_history",
        "TRUNCATE surefoot.idempotency_history",
    ):
        with pytest.raises(asyncpg.RaiseError, match="only grows"):
            await connection.execute(statement)


async def test_a_history_that_was_not_touched_is_whole(store: Store, connection: asyncpg.Connection) -> None:
    assert (await store.verify_history()).head is None
    await answered(store, asked("first"))
    await make_older(connection, timedelta(minutes=1))
    assert await store.seal() == 2
    await answered(store, asked("second"))
    assert await store.seal() == 0, "the last second is not sealed"
    await sealed(store, 2)
    verified = await store.verify_history()
    assert verified.is_whole
    assert (verified.seals, verified.rows, verified.pruned) == (2, 4, 0)
    assert verified.head is not None
    assert verified.head[0] == 2
    assert (await store.verify_history(head=verified.head)).is_whole


TAMPERED = {
    "UPDATE surefoot.idempotency_history SET details = '{\"status\":200}' WHERE number = 2": "was changed",
    "UPDATE surefoot.idempotency_history SET fence = 7 WHERE number = 1": "was changed",
    "UPDATE surefoot.idempotency_history SET at = at - interval '1 year' WHERE number = 3": "was changed",
    "DELETE FROM surefoot.idempotency_history WHERE number = 2": "1 or more were removed",
    "DELETE FROM surefoot.idempotency_history": "4 lines, and 0 are there",
    """INSERT INTO surefoot.idempotency_history (at, key_hash, tenant, fence, what)
       SELECT at, key_hash, tenant, fence, what FROM surefoot.idempotency_history WHERE number = 1""": "were added",
    "UPDATE surefoot.idempotency_seals SET rows = 3": "were added since",
    "UPDATE surefoot.idempotency_seals SET number = 2": "After seal 0 comes seal 2",
}
TABLES = ("idempotency_history", "idempotency_seals")


async def test_every_change_of_sealed_lines_is_found(store: Store, connection: asyncpg.Connection) -> None:
    await answered(store, asked("first"))
    await answered(store, asked("second"))
    await make_older(connection, timedelta(minutes=1))
    assert await store.seal() == 4
    for table in TABLES:
        await connection.execute(f"CREATE TABLE {table} AS TABLE surefoot.{table}")
    for statement, finding in TAMPERED.items():
        assert (await store.verify_history()).is_whole
        await tamper(connection, statement)
        assert finding in " ".join((await store.verify_history()).findings), statement
        for table in TABLES:
            await tamper(connection, f"DELETE FROM surefoot.{table}")
            await tamper(connection, f"INSERT INTO surefoot.{table} OVERRIDING SYSTEM VALUE SELECT * FROM {table}")


async def test_a_history_sealed_anew_does_not_fit_what_was_written_down(
    store: Store, connection: asyncpg.Connection
) -> None:
    await answered(store, asked())
    await make_older(connection, timedelta(minutes=1))
    await sealed(store, 2)
    head = (await store.verify_history()).head
    await tamper(connection, "DELETE FROM surefoot.idempotency_seals")
    await tamper(connection, "DELETE FROM surefoot.idempotency_history WHERE number = 1")
    await sealed(store, 1)
    assert (await store.verify_history()).is_whole
    (finding,) = (await store.verify_history(head=head)).findings
    assert "not the one that was written down" in finding


# -- what is not written yet ------------------------------------------------------------------------------------------


async def test_nothing_is_sealed_that_an_open_transaction_may_add_to(
    store: Store, connection: asyncpg.Connection, database_url: str
) -> None:
    """Its line is dated before it is committed: had the others been sealed, it would come into a sealed range."""
    slow = await asyncpg.connect(database_url)
    await answered(store, asked("before"))
    late = slow.transaction()
    await late.start()
    await slow.execute(ADD_LINE)
    await answered(store, asked("after"))

    async def two_sealed() -> bool:
        return await store.seal() == 2

    await eventually(two_sealed, what="what was before is sealed")
    await asyncio.sleep(1.2)  # the second has gone by: what came after is kept back by the open transaction alone
    assert await store.seal() == 0
    await late.commit()
    await sealed(store, 3)
    verified = await store.verify_history()
    assert verified.is_whole
    assert verified.rows == 5
    await slow.close()


async def test_a_long_transaction_that_writes_no_history_delays_nothing(
    store: Store, connection: asyncpg.Connection
) -> None:
    async with connection.transaction():
        await connection.execute("INSERT INTO effects VALUES (1)")
        await connection.fetch("SELECT FROM surefoot.idempotency_history")
        await answered(store, asked())
        await sealed(store, 2)


async def test_a_session_that_cannot_be_looked_into_delays_as_long_as_it_may_last(
    store: Store, connection: asyncpg.Connection, database_url: str
) -> None:
    """Whoever seals may not see when the transactions of other users began."""
    role = f"sealer_{uuid.uuid4().hex}"
    await connection.execute(
        f"""CREATE ROLE {role} LOGIN PASSWORD 'seal'; GRANT USAGE ON SCHEMA surefoot TO {role};
            GRANT ALL ON ALL TABLES IN SCHEMA surefoot TO {role}"""
    )
    url = re.sub(r"://[^@]*@", f"://{role}:seal@", database_url)
    try:
        async with Store(url, SETTINGS) as theirs:
            await answered(store, asked("old"))
            await make_older(connection, timedelta(minutes=4))
            await answered(store, asked("young"))
            await make_older(connection, timedelta(minutes=2))
            async with connection.transaction():
                await connection.execute(ADD_LINE)
                assert [await theirs.seal() for _ in range(2)] == [2, 0]
            assert await theirs.seal() == 2
            assert (await theirs.verify_history()).is_whole
    finally:
        await connection.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")


async def test_one_seals_at_a_time(store: Store, connection: asyncpg.Connection) -> None:
    await answered(store, asked())
    await make_older(connection, timedelta(minutes=1))
    async with connection.transaction():
        await connection.execute(f"SELECT pg_advisory_xact_lock({locks.HISTORY_SEAL})")
        assert await store.seal() == 0
    assert sorted(await asyncio.gather(*(store.seal() for _ in range(5)))) == [0, 0, 0, 0, 2]
    assert (await store.verify_history()).seals == 1


async def test_a_seal_is_over_so_many_lines_at_most(
    store: Store, connection: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sealing, "LINES_IN_A_SEAL", 3)
    for number in range(4):
        await answered(store, asked(f"key-{number}"))
    await make_older(connection, timedelta(minutes=1))
    assert [await store.seal() for _ in range(4)] == [3, 3, 2, 0]
    verified = await store.verify_history()
    assert verified.is_whole
    assert (verified.seals, verified.rows) == (3, 8)


async def test_lines_of_one_time_are_sealed_together_however_many(
    store: Store, connection: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sealing, "LINES_IN_A_SEAL", 2)
    await connection.execute(
        """INSERT INTO surefoot.idempotency_history (at, key_hash, tenant, fence, what)
           SELECT now() - interval '1 minute', '', 'shop', 1, 'claimed' FROM generate_series(1, 7)"""
    )
    await sealed(store, 7)
    assert (await store.verify_history()).is_whole


async def test_lines_written_by_many_while_it_is_sealed_are_all_sealed(store: Store) -> None:
    claims = [await kept(store, asked(f"key-{number}", "outside")) for number in range(8)]
    done = asyncio.Event()

    async def write(number: int) -> int:
        for turn in range(60):
            await store.note(claims[number], Note("called", {"turn": turn}))
        return 60

    async def seal() -> int:
        count = 0
        while not done.is_set():
            count += await store.seal()
            await asyncio.sleep(0.02)
        return count

    sealing_task = asyncio.create_task(seal())
    written = sum(await asyncio.gather(*(write(number) for number in range(8)))) + 8
    done.set()
    already = await sealing_task
    await sealed(store, written - already)
    verified = await store.verify_history()
    assert verified.is_whole, verified.findings
    assert verified.rows == written


# -- what is old enough -----------------------------------------------------------------------------------------------


async def test_lines_past_their_time_are_removed_and_their_seals_stay(
    store: Store, connection: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sealing, "LINES_IN_A_SEAL", 2)
    for number in range(3):
        await answered(store, asked(f"key-{number}"))
    await make_older(connection, 3 * A_DAY)
    await answered(store, asked("young"))
    await make_older(connection, timedelta(minutes=1))
    assert await store.prune_history(A_DAY, 1000) == 0, "what is not sealed stays"
    assert [await store.seal() for _ in range(5)] == [2, 2, 2, 2, 0]
    assert await store.prune_history(5 * A_DAY, 1000) == 0
    # The third seal ends where the fourth begins, which is young: it is kept until that has come of age too.
    assert await store.prune_history(A_DAY, 1) == 2
    assert await store.prune_history(A_DAY, 1000) == 2
    assert await store.prune_history(A_DAY, 1000) == 0
    verified = await store.verify_history(keep=A_DAY)
    assert verified.is_whole, verified.findings
    assert (verified.seals, verified.rows, verified.pruned) == (4, 4, 2)
    assert not (await store.verify_history()).is_whole  # by the settings' seven years, they should be there
