"""The facts of the weekly report, counted from letters written by hand."""

from datetime import UTC, datetime, timedelta
from typing import Any

from surefoot.database.connection import Connection
from surefoot.dlq.upkeep.report import Decision, GroupFacts, facts, report
from tests.support.dlq.fixtures import connection
from tests.support.dlq.letter_rows import insert, letter, new_id

__all__ = ["connection"]

SCHEMA = "surefoot"
SINCE, UNTIL = datetime(2026, 11, 2, tzinfo=UTC), datetime(2026, 11, 9, tzinfo=UTC)


def at(day: int, hour: int = 12) -> datetime:
    return datetime(2026, 11, 1, tzinfo=UTC) + timedelta(days=day - 1, hours=hour)


def came(number: int, day: int, **changed: Any) -> dict[str, Any]:
    return letter(number, failed_at=at(day), received_at=at(day), **changed)


def done(number: int, day: int, status: str, resolved_at: datetime, **changed: Any) -> dict[str, Any]:
    return came(number, day, status=status, resolved_at=resolved_at, **changed)


async def put(connection: Connection, *letters: dict[str, Any]) -> None:
    for one in letters:
        await insert(connection, [one])


async def test_letters_are_counted_in_the_week_they_came_and_were_settled_in(connection: Connection) -> None:
    await put(
        connection,
        came(1, 1),
        came(2, 3),
        came(3, 9),
        done(4, 1, "REPLAYED", at(1, 14)),
        done(5, 1, "REPLAYED", at(3)),
        done(6, 3, "REPLAYED", at(3, 13)),
        done(7, 3, "DISCARDED", at(4), resolution="Discarded by ada, approved by bob: a test order"),
        done(8, 4, "SUPERSEDED", at(4, 16)),
        done(9, 4, "REPLAYED", at(9)),
        came(10, 4, status="REPLAYING"),
    )
    (one,) = (await facts(connection, SCHEMA, since=SINCE, until=UNTIL)).consumers
    assert (one.consumer, one.new, one.replayed, one.discarded, one.superseded) == ("warehouse", 6, 2, 1, 1)
    assert (one.open, one.oldest_open) == (4, at(1)), "also what was settled only later, and what is being replayed"
    assert one.median_to_resolution == timedelta(hours=14), "between 1, 4, 24 and 48 hours"


async def test_held_keys_are_counted_once_each(connection: Connection) -> None:
    await put(
        connection,
        came(1, 3, key="a"),
        came(2, 3, key="a"),
        came(3, 3, key="a", partition=1),
        came(4, 3, key="b", held=False),
        done(5, 3, "REPLAYED", at(4), key="c"),
    )
    (one,) = (await facts(connection, SCHEMA, since=SINCE, until=UNTIL)).consumers
    assert one.held_keys == 2


async def test_the_groups_with_most_open_come_first_with_their_latest_sentence(connection: Connection) -> None:
    await put(
        connection,
        came(1, 3, fingerprint="few", error="Few."),
        came(2, 3, fingerprint="many", error="Many, at first."),
        came(3, 1, fingerprint="many", error="Many, long ago."),
        came(4, 4, fingerprint="many", error="Many, now."),
        done(5, 1, "REPLAYED", at(4), fingerprint="settled"),
    )
    (one,) = (await facts(connection, SCHEMA, since=SINCE, until=UNTIL)).consumers
    assert one.groups == (
        GroupFacts("many", "order.placed", "Many, now.", 3, 2),
        GroupFacts("few", "order.placed", "Few.", 1, 1),
    )


async def test_discards_are_told_with_who_asked_who_approved_and_why(connection: Connection) -> None:
    job, approval = new_id(), new_id()
    await connection.execute(
        """INSERT INTO surefoot.dlq_approvals (id, status, reason, requested_by, expires_at, total, set_hash,
               decided_by)
           VALUES ($1, 'APPROVED', 'A test order.', 'ada', now(), 2, '', 'bob')""",
        approval,
    )
    await connection.execute(
        """INSERT INTO surefoot.dlq_jobs (id, kind, asked, reason, created_by, total, approval_id)
           VALUES ($1, 'discard', '{}', 'A test order.', 'ada', 2, $2)""",
        job,
        approval,
    )
    await put(
        connection,
        done(1, 3, "DISCARDED", at(4), job_id=job, resolution="said of 1"),
        done(2, 3, "DISCARDED", at(4), job_id=job, resolution="said of 2"),
        done(3, 3, "DISCARDED", at(4), job_id=None, resolution="Discarded by eve: unreadable"),
    )
    (one,) = (await facts(connection, SCHEMA, since=SINCE, until=UNTIL)).consumers
    assert one.discards == (
        Decision("By ada, approved by bob: A test order.", 2),
        Decision("Discarded by eve: unreadable", 1),
    )


async def test_each_consumer_has_its_own_facts_and_the_text_is_the_same_each_time(connection: Connection) -> None:
    await put(connection, came(1, 3, consumer="b"), came(2, 3, consumer="a"), came(3, 3, consumer="", held=False))
    text = await report(connection, SCHEMA, since=SINCE, until=UNTIL)
    assert [line for line in text.splitlines() if line.startswith("## ")] == [
        "## (letters that could not be read)",
        "## a",
        "## b",
    ]
    assert await report(connection, SCHEMA, since=SINCE, until=UNTIL) == text


async def test_markup_in_an_error_stays_text(connection: Connection) -> None:
    await put(connection, came(1, 3, error="<script>alert(1)</script> [x](http://evil) | y"))
    text = await report(connection, SCHEMA, since=SINCE, until=UNTIL)
    assert r"\<script\>alert\(1\)\</script\> \[x\]\(http\://evil\) \| y" in text


async def test_a_database_without_dead_letters_has_a_report_too(connection: Connection) -> None:
    assert await report(connection, SCHEMA, since=SINCE, until=UNTIL) == (
        "# Dead letters from 2026-11-02 00:00 UTC to 2026-11-09 00:00 UTC\n\n"
        "None came, none was decided, none is open.\n"
    )
