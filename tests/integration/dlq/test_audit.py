"""The audit log only grows; whoever gets past that is found, and the row is named."""

import asyncio

import asyncpg
import pytest

from surefoot.audit import record as audit
from surefoot.audit.chain import FIRST_PREVIOUS, AuditRow, Finding, seal_of
from surefoot.audit.record import Act
from surefoot.database.connection import Connection, connect
from tests.support.corpus import each_of
from tests.support.dlq.fixtures import connection

__all__ = ["connection"]

SCHEMA = "surefoot"


def act(about: str = "job 1", *, details: dict[str, object] | None = None) -> Act:
    return Act("ada", "replay", "done", about, "The fix is out.", details or {"total": 3})


async def record(connection: Connection, an_act: Act) -> int:
    async with connection.transaction():
        return await audit.record(connection, SCHEMA, an_act)


async def record_many(connection: Connection, count: int) -> None:
    for number in range(1, count + 1):
        await record(connection, act(f"job {number}"))


async def without_guard(connection: Connection, *statements: str) -> None:
    """What somebody does who owns the table."""
    await connection.execute(f"ALTER TABLE {SCHEMA}.audit_log DISABLE TRIGGER USER")
    for statement in statements:
        await connection.execute(statement)
    await connection.execute(f"ALTER TABLE {SCHEMA}.audit_log ENABLE TRIGGER USER")


async def numbers(connection: Connection) -> list[int]:
    rows = await connection.fetch(f"SELECT number FROM {SCHEMA}.audit_log ORDER BY number")
    return [row["number"] for row in rows]


async def found(connection: Connection, head: tuple[int, str] | None = None) -> list[Finding]:
    return await audit.verify(connection, SCHEMA, head=head)


async def test_an_empty_log_is_whole_and_has_no_head(connection: Connection) -> None:
    assert await found(connection) == []
    assert await audit.head(connection, SCHEMA) is None


async def test_rows_are_numbered_from_one_and_the_first_follows_nothing(connection: Connection) -> None:
    assert [await record(connection, act()), await record(connection, act())] == [1, 2]
    rows = await connection.fetch(f"SELECT * FROM {SCHEMA}.audit_log ORDER BY number")
    assert bytes(rows[0]["previous"]) == FIRST_PREVIOUS
    assert rows[1]["previous"] == rows[0]["seal"]
    assert (rows[0]["person"], rows[0]["action"], rows[0]["outcome"]) == ("ada", "replay", "done")
    assert await audit.head(connection, SCHEMA) == (2, bytes(rows[1]["seal"]).hex())


async def test_a_log_that_was_only_added_to_is_whole(connection: Connection) -> None:
    await record_many(connection, 7)
    head = await audit.head(connection, SCHEMA)
    await record(connection, act("job 8"))
    assert await found(connection, head) == []


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE surefoot.audit_log SET reason = 'another'",
        "DELETE FROM surefoot.audit_log",
        "TRUNCATE surefoot.audit_log",
    ],
)
async def test_no_row_can_be_changed_or_removed(connection: Connection, statement: str) -> None:
    await record(connection, act())
    with pytest.raises(asyncpg.PostgresError, match="only grows"):
        await connection.execute(statement)
    assert await numbers(connection) == [1]
    assert await found(connection) == []


@pytest.fixture
async def five_rows(connection: Connection) -> Connection:
    await record_many(connection, 5)
    return connection


@each_of(
    "change",
    [
        "at = at + interval '1 microsecond'",
        "at = 'infinity'",
        "at = '20000-01-01Z'",
        "person = 'eve'",
        "action = 'reveal'",
        "outcome = 'refused'",
        "about = 'job 4'",
        "reason = 'another'",
        """details = '{"total":4}'""",
        """details = '{"total": 3}'""",
        r"seal = '\x00'",
    ],
)
async def test_a_changed_row_is_found_and_named(five_rows: Connection, change: str) -> None:
    assert await found(five_rows) == []
    await five_rows.execute("BEGIN")
    try:
        await without_guard(five_rows, f"UPDATE {SCHEMA}.audit_log SET {change} WHERE number = 3")
        assert await found(five_rows) == [Finding("changed", 3, 3)]
    finally:
        await five_rows.execute("ROLLBACK")


async def test_a_changed_row_that_was_sealed_anew_is_found_by_the_row_after_it(connection: Connection) -> None:
    await record_many(connection, 5)
    await seal_anew(connection, 3, "UPDATE surefoot.audit_log SET person = 'eve' WHERE number = 3")
    assert await found(connection) == [Finding("changed", 3, 3)]


async def test_a_log_sealed_anew_to_its_end_is_found_by_the_head_that_was_written_down(connection: Connection) -> None:
    await record_many(connection, 5)
    head = await audit.head(connection, SCHEMA)
    await seal_anew(connection, 3, "UPDATE surefoot.audit_log SET person = 'eve' WHERE number = 3", to_the_end=True)
    assert await found(connection) == [], "nothing in the table itself can tell"
    assert await found(connection, head) == [Finding("other_head", 5, 5)]


async def test_a_row_removed_in_the_middle_is_found(connection: Connection) -> None:
    await record_many(connection, 6)
    await without_guard(connection, "DELETE FROM surefoot.audit_log WHERE number IN (3, 4)")
    assert await found(connection) == [Finding("removed", 3, 4)]


async def test_the_first_row_removed_is_found(connection: Connection) -> None:
    await record_many(connection, 3)
    await without_guard(connection, "DELETE FROM surefoot.audit_log WHERE number = 1")
    assert await found(connection) == [Finding("removed", 1, 1)]


async def test_rows_removed_at_the_end_are_found_by_the_head_that_was_written_down(connection: Connection) -> None:
    await record_many(connection, 5)
    head = await audit.head(connection, SCHEMA)
    await without_guard(connection, "DELETE FROM surefoot.audit_log WHERE number > 3")
    assert await found(connection, head) == [Finding("removed", 4, 5)]


async def test_a_log_emptied_is_found_by_the_head_that_was_written_down(connection: Connection) -> None:
    await record_many(connection, 2)
    head = await audit.head(connection, SCHEMA)
    await without_guard(connection, "TRUNCATE surefoot.audit_log")
    assert await found(connection, head) == [Finding("removed", 1, 2)]


async def test_rows_removed_and_written_anew_are_found_by_the_head_that_was_written_down(
    connection: Connection,
) -> None:
    await record_many(connection, 3)
    head = await audit.head(connection, SCHEMA)
    await without_guard(connection, "DELETE FROM surefoot.audit_log WHERE number = 3")
    await record(connection, act("another"))
    assert await found(connection, head) == [Finding("other_head", 3, 3)]


async def test_a_row_removed_with_the_later_ones_renumbered_is_found(connection: Connection) -> None:
    await record_many(connection, 6)
    await without_guard(
        connection,
        "DELETE FROM surefoot.audit_log WHERE number = 3",
        "UPDATE surefoot.audit_log SET number = -number WHERE number > 3",
        "UPDATE surefoot.audit_log SET number = -number - 1 WHERE number < 0",
    )
    assert await numbers(connection) == [1, 2, 3, 4, 5]
    assert await found(connection) == [Finding("removed", 3, 3)]


async def test_a_row_inserted_with_the_later_ones_renumbered_is_found(connection: Connection) -> None:
    await record_many(connection, 5)
    await without_guard(
        connection,
        "UPDATE surefoot.audit_log SET number = -number WHERE number >= 3",
        "UPDATE surefoot.audit_log SET number = -number + 1 WHERE number < 0",
        """INSERT INTO surefoot.audit_log
           SELECT 3, at, 'eve', action, outcome, about, reason, details, seal, previous
           FROM surefoot.audit_log WHERE number = 2""",
    )
    assert await numbers(connection) == [1, 2, 3, 4, 5, 6]
    assert await found(connection) == [Finding("inserted", 3, 3)]


async def test_a_row_inserted_before_the_first_is_found(connection: Connection) -> None:
    await record_many(connection, 2)
    await without_guard(
        connection,
        """INSERT INTO surefoot.audit_log SELECT 0, at, person, action, outcome, about, reason, details, previous, seal
           FROM surefoot.audit_log WHERE number = 1""",
    )
    assert await found(connection) == [Finding("inserted", 0, 0)]


async def test_a_row_put_at_the_end_without_a_seal_of_its_own_is_found(connection: Connection) -> None:
    await record_many(connection, 2)
    await without_guard(
        connection,
        """INSERT INTO surefoot.audit_log SELECT 3, at, person, action, outcome, about, reason, details, previous, seal
           FROM surefoot.audit_log WHERE number = 1""",
    )
    assert await found(connection) == [Finding("changed", 3, 3)]


@pytest.mark.parametrize(("one", "other"), [(2, 3), (2, 5), (5, 6), (1, 6)])
async def test_swapped_rows_are_found_and_both_are_named(connection: Connection, one: int, other: int) -> None:
    await record_many(connection, 6)
    await without_guard(
        connection,
        f"UPDATE surefoot.audit_log SET number = 100 WHERE number = {one}",
        f"UPDATE surefoot.audit_log SET number = {one} WHERE number = {other}",
        f"UPDATE surefoot.audit_log SET number = {other} WHERE number = 100",
    )
    assert await found(connection) == [Finding("swapped", one, other)]


async def test_writers_at_the_same_time_leave_a_chain_without_gaps(database_url: str, connection: Connection) -> None:
    async def write(name: str) -> None:
        own = await connect(database_url, name=name)
        try:
            for number in range(10):
                await record(own, act(f"{name} {number}"))
        finally:
            await own.close()

    await asyncio.gather(*(write(f"writer {number}") for number in range(8)))
    assert await numbers(connection) == list(range(1, 81))
    assert await found(connection) == []


async def test_an_act_that_was_rolled_back_leaves_nothing_not_even_a_gap(connection: Connection) -> None:
    await record(connection, act())
    with pytest.raises(RuntimeError, match="no"):
        async with connection.transaction():
            assert await audit.record(connection, SCHEMA, act("undone")) == 2
            raise RuntimeError("no")
    await record(connection, act("done"))
    assert await numbers(connection) == [1, 2]
    assert await found(connection) == []


async def test_an_act_without_a_transaction_is_refused(connection: Connection) -> None:
    with pytest.raises(audit.NotInTransaction):
        await audit.record(connection, SCHEMA, act())
    assert await numbers(connection) == []


async def test_an_act_is_recorded_whatever_it_says(connection: Connection) -> None:
    nasty = "NUL \x00 half \ud800 " + "long " * 5000
    await record(
        connection,
        Act(nasty, "request", "refused", nasty, nasty, {nasty: [nasty, float("nan"), {nasty}, None, True, 1.5]}),
    )
    assert await found(connection) == []
    row = await connection.fetchrow(f"SELECT * FROM {SCHEMA}.audit_log")
    assert row is not None
    assert row["person"].startswith("NUL � half ? long")
    assert len(row["about"]) == audit.NAME_LIMIT


async def test_the_seal_does_not_depend_on_the_session(database_url: str, connection: Connection) -> None:
    await record(connection, act())
    other = await connect(
        database_url,
        name="test",
        settings={"TimeZone": "Asia/Kathmandu", "DateStyle": "German", "bytea_output": "escape"},
    )
    try:
        await record(other, act("job 2"))
        assert await found(other) == []
    finally:
        await other.close()
    assert await found(connection) == []


async def test_pages_fit_together(connection: Connection) -> None:
    await record_many(connection, 10)
    seen: list[int] = []
    assert (await audit.examine(connection, SCHEMA, progress=seen.append, size=3)).findings == []
    assert seen == [3, 3, 3, 1]
    await without_guard(connection, "UPDATE surefoot.audit_log SET person = 'eve' WHERE number IN (3, 4, 9)")
    examined = await audit.examine(connection, SCHEMA, size=3)
    assert examined.findings == [Finding("changed", 3, 4), Finding("changed", 9, 9)]


async def seal_anew(connection: Connection, number: int, statement: str, *, to_the_end: bool = False) -> None:
    """Somebody who knows how rows are sealed changes one, and seals it (and, if asked, all later ones) again."""
    await without_guard(connection, statement)
    rows = [row async for page in audit.pages(connection, SCHEMA, after=number - 1) for row in page]
    previous = rows[0].previous
    for row in rows if to_the_end else rows[:1]:
        changed = AuditRow(
            row.number, row.at, row.person, row.action, row.outcome, row.about, row.reason, row.details, previous
        )
        previous = seal_of(changed)
        await without_guard(
            connection,
            rf"""UPDATE surefoot.audit_log SET previous = '\x{changed.previous.hex()}', seal = '\x{previous.hex()}'
                 WHERE number = {row.number}""",
        )


async def test_the_database_seals_every_character_as_whoever_verifies_does(connection: Connection) -> None:
    """Written straight, without the cleaning that `record` does: nothing that Postgres takes is sealed in two ways."""
    every = [chr(code) for code in range(1, 0x110000) if not 0xD800 <= code < 0xE000]
    for start in range(0, len(every), 60_000):
        text = "".join(every[start : start + 60_000])
        await connection.fetchval("SELECT surefoot.record_act('p', 'a', 'done', 'x', $1::text, '{}')", text)
    assert len(await numbers(connection)) > 18
    assert await found(connection) == []
