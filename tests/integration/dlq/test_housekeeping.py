"""What is old goes and is recorded; what is open is told of first; what holds a key stays."""

import asyncio
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from surefoot.audit import record as audit
from surefoot.audit.people import Person
from surefoot.database.connection import Connection, connect
from surefoot.database.embedded import EmbeddedPostgres
from surefoot.dlq.jobs.approvals import Approvals
from surefoot.dlq.jobs.request import Matching
from surefoot.dlq.letters.filters import Filter
from surefoot.dlq.metrics import OUTAGES
from surefoot.dlq.settings import DlqSettings
from surefoot.dlq.upkeep import retention
from surefoot.dlq.upkeep.housekeeping import Housekeeping
from surefoot.errors import SchemaOutdated
from tests.support.dlq.fixtures import alerts, connection
from tests.support.dlq.housekeeping import Kept, aged, numbers, put, settled
from tests.support.dlq.letter_rows import dlq_id, new_id
from tests.support.waiting import eventually

__all__ = ["alerts", "connection"]

SCHEMA = "surefoot"


@pytest.fixture
def house(database_url: str, alerts: Kept) -> Housekeeping:
    return Housekeeping(database_url, DlqSettings(), alerts)


async def recorded(connection: Connection) -> list[dict[str, Any]]:
    """The acts of retention, in order."""
    rows = await connection.fetch(f"SELECT * FROM {SCHEMA}.audit_log WHERE action = 'retention' ORDER BY number")
    assert await audit.verify(connection, SCHEMA) == []
    return [
        {"person": row["person"], "about": row["about"], "reason": row["reason"], **json.loads(row["details"])}
        for row in rows
    ]


async def a_day_later(connection: Connection) -> None:
    """Telling was a day ago."""
    await connection.execute(f"UPDATE {SCHEMA}.dlq_told SET told_at = told_at - interval '1 day'")


async def test_settled_letters_go_after_their_time_and_it_is_recorded(
    connection: Connection, house: Housekeeping
) -> None:
    await put(
        connection,
        settled(1, 31, "REPLAYED", fingerprint="a"),
        settled(2, 31, "DISCARDED", fingerprint="a"),
        settled(3, 31, "SUPERSEDED", fingerprint="b"),
        settled(4, 29),
    )
    assert await house.once(connection) == 3
    assert await numbers(connection) == [4]
    assert await recorded(connection) == [
        {
            "person": "surefoot",
            "about": "dead letters",
            "reason": "Settled; older than 30 days, 0:00:00.",
            "removed": 3,
            "statuses": {"REPLAYED": 1, "DISCARDED": 1, "SUPERSEDED": 1},
            "groups": {"a": 2, "b": 1},
            "more_groups": 0,
        }
    ]


async def test_letters_go_in_batches_each_recorded(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "BATCH", 2)
    house = Housekeeping("postgresql://unused", DlqSettings(), Kept())
    await put(connection, *(settled(number, 31) for number in range(5)))
    assert await house.once(connection) == 5
    assert [act["removed"] for act in await recorded(connection)] == [2, 2, 1]


async def test_it_stops_between_two_batches(connection: Connection, house: Housekeeping) -> None:
    await put(connection, *(settled(number, 31) for number in range(3)))
    house.stop()
    assert await house.once(connection) == 0
    assert await numbers(connection) == [0, 1, 2]


async def test_an_open_letter_that_holds_its_key_is_told_of_and_kept(
    connection: Connection, house: Housekeeping, alerts: Kept
) -> None:
    await put(connection, aged(1, 100, held=True), aged(2, 40, held=True))
    assert await house.once(connection) == 0
    assert await house.once(connection) == 0
    (alert,) = alerts.taken("held_letter_past_retention")
    oldest = alert.details["oldest"]
    assert alert.sentence == (
        "Of warehouse, 2 open dead letters are older than 30 days, and later events of the same keys wait. Kept "
        f"until somebody decides: surefoot dlq show {oldest} is the oldest."
    )
    assert oldest == str(dlq_id(1))
    for _ in range(3):
        await a_day_later(connection)
        assert await house.once(connection) == 0
    assert len(alerts.taken("held_letter_past_retention")) == 3, "once a day, for as long as it is there"
    assert await numbers(connection) == [1, 2]
    assert await recorded(connection) == []


async def test_an_open_letter_that_holds_nothing_is_removed_a_day_after_telling(
    connection: Connection, house: Housekeeping, alerts: Kept
) -> None:
    await put(connection, aged(1, 31, held=False), aged(2, 29, held=False), aged(3, 31, held=True))
    assert await house.once(connection) == 0
    (alert,) = alerts.taken("open_letter_past_retention")
    assert alert.sentence.startswith(
        "Of warehouse, 1 open dead letter is older than 30 days; no key is held. Removed in 24 hours unless somebody "
        "decides: surefoot dlq show "
    )
    await a_day_later(connection)
    assert await house.once(connection) == 1
    assert await numbers(connection) == [2, 3]
    (act,) = await recorded(connection)
    assert (act["reason"], act["statuses"]) == ("Open, and told of before; older than 30 days, 0:00:00.", {"OPEN": 1})
    assert alerts.taken("open_letter_past_retention") == []


async def test_an_open_letter_that_was_not_among_those_told_of_stays(
    connection: Connection, house: Housekeeping, alerts: Kept
) -> None:
    await put(connection, aged(1, 31, held=False), aged(2, 29.5, held=False))
    await house.once(connection)
    await a_day_later(connection)
    await connection.execute("UPDATE surefoot.dlq_events SET failed_at = failed_at - interval '1 day'")
    await connection.execute("UPDATE surefoot.dlq_told SET up_to = up_to - interval '1 day'")
    assert await house.once(connection) == 1
    assert await numbers(connection) == [2]
    assert len(alerts.taken("open_letter_past_retention")) == 2, "it is told of now"


async def test_a_shorter_retention_removes_no_open_letter_untold(
    connection: Connection, database_url: str, house: Housekeeping, alerts: Kept
) -> None:
    await put(connection, aged(1, 31, held=False), aged(2, 20, held=False))
    await house.once(connection)
    await a_day_later(connection)
    shorter = Housekeeping(database_url, DlqSettings(retention=timedelta(days=10)), alerts)
    assert await shorter.once(connection) == 1
    assert await numbers(connection) == [2]


async def test_what_a_job_or_an_approval_has_in_hand_stays(connection: Connection, house: Housekeeping) -> None:
    await put(
        connection,
        aged(1, 100, held=False, status="REPLAYING"),
        aged(2, 100, held=False, status="DISCARD_REQUESTED"),
    )
    for _ in range(2):
        assert await house.once(connection) == 0
        await a_day_later(connection)
    assert await numbers(connection) == [1, 2]


async def test_groups_without_letters_go_when_they_are_old(connection: Connection, house: Housekeeping) -> None:
    await put(
        connection,
        settled(1, 31, fingerprint="old and empty"),
        settled(2, 31, fingerprint="old"),
        aged(3, 1, fingerprint="old"),
        settled(4, 1, fingerprint="empty"),
    )
    await connection.execute("DELETE FROM surefoot.dlq_events WHERE fingerprint = 'empty'")
    await house.once(connection)
    rows = await connection.fetch("SELECT fingerprint, open, replayed FROM surefoot.dlq_groups ORDER BY 1")
    assert [(row[0], row[1], row[2]) for row in rows] == [("empty", 0, 0), ("old", 1, 0)]


async def test_old_jobs_and_approvals_go_with_their_items(connection: Connection, house: Housekeeping) -> None:
    old, new, under_way = new_id(), new_id(), new_id()
    for job, status, ended in ((old, "DONE", "31 days"), (new, "CANCELLED", "29 days"), (under_way, "PAUSED", None)):
        await connection.execute(
            """INSERT INTO surefoot.dlq_jobs (id, kind, status, asked, reason, created_by, created_at, total, ended_at)
               VALUES ($1, 'discard', $2::text::surefoot.dlq_job_status, '{}', 'why', 'ada', now() - interval '90 days',
                   1, now() - $3::text::interval)""",
            job,
            status,
            ended,
        )
        await connection.execute(
            "INSERT INTO surefoot.dlq_job_items (job_id, number, dlq_id, lane, control_id) VALUES ($1, 1, $2, 'l', $3)",
            job,
            new_id(),
            new_id(),
        )
    decided = [("EXPIRED", 31, None), ("APPROVED", 31, old), ("APPROVED", 31, under_way), ("REFUSED", 1, None)]
    for decision, days, of_job in decided:
        approval = new_id()
        await connection.execute(
            """INSERT INTO surefoot.dlq_approvals (id, status, reason, requested_by, expires_at, total, set_hash,
                   job_id)
               VALUES ($1, $2::text::surefoot.dlq_approval_status, 'why', 'ada', now() - $3::int * interval '1 day', 1,
                   'hash', $4)""",
            approval,
            decision,
            days,
            of_job,
        )
        await connection.execute("INSERT INTO surefoot.dlq_approval_items VALUES ($1, $2)", approval, new_id())
    await house.once(connection)
    jobs = await connection.fetch("SELECT id FROM surefoot.dlq_jobs ORDER BY id")
    items = await connection.fetch("SELECT job_id FROM surefoot.dlq_job_items ORDER BY job_id")
    assert [row[0] for row in jobs] == [row[0] for row in items] == sorted([new, under_way])
    left = await connection.fetch("SELECT status::text, job_id FROM surefoot.dlq_approvals ORDER BY 1")
    assert [(row[0], row[1]) for row in left] == [("APPROVED", under_way), ("REFUSED", None)]
    assert await connection.fetchval("SELECT count(*) FROM surefoot.dlq_approval_items") == 2
    assert [(act["about"], act["removed"]) for act in await recorded(connection)] == [("jobs", 1), ("approvals", 2)]


async def test_answers_to_requests_go_after_two_days(connection: Connection, house: Housekeeping) -> None:
    for key, hours in (("old", 49), ("new", 47)):
        await connection.execute(
            """INSERT INTO surefoot.admin_requests (person, key, fingerprint, status, body, answered_at)
               VALUES ('ada', $1, '', 200, '', now() - $2::int * interval '1 hour')""",
            key,
            hours,
        )
    await house.once(connection)
    assert await connection.fetchval("SELECT string_agg(key, ' ') FROM surefoot.admin_requests") == "new"


async def test_ids_of_letters_are_forgotten_long_after_the_letters_and_those_of_consumers_are_not(
    connection: Connection, house: Housekeeping
) -> None:
    for consumer, days in (("dlq", 91), ("dlq", 89), ("warehouse", 91)):
        await connection.execute(
            """INSERT INTO surefoot.processed_events (consumer, source, event_id, outcome, processed_at)
               VALUES ($1, 's', $2::int::text, 'PROCESSED', now() - $2::int * interval '1 day')""",
            consumer,
            days,
        )
    await house.once(connection)
    rows = await connection.fetch("SELECT consumer, event_id FROM surefoot.processed_events ORDER BY 1")
    assert [(row[0], row[1]) for row in rows] == [("dlq", "89"), ("warehouse", "91")]


async def test_a_discard_that_nobody_approved_in_time_is_given_back(
    connection: Connection, house: Housekeeping
) -> None:
    await put(connection, aged(1, 1))
    async with connection.transaction():
        await Approvals(connection, SCHEMA, DlqSettings()).request(
            Person("ada", "OPERATOR"), Matching(Filter(consumer="warehouse")), "A test order."
        )
    await connection.execute("UPDATE surefoot.dlq_approvals SET expires_at = now() - interval '1 second'")
    await house.once(connection)
    assert await connection.fetchval("SELECT status::text FROM surefoot.dlq_events") == "OPEN"
    assert await connection.fetchval("SELECT status::text FROM surefoot.dlq_approvals") == "EXPIRED"


async def test_services_that_keep_house_at_once_remove_everything_and_record_it_once(
    connection: Connection, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "BATCH", 5)
    await put(connection, *(settled(number, 31, fingerprint=f"g{number % 3}") for number in range(40)))

    async def service() -> int:
        own = await connect(database_url, name="test")
        try:
            return await Housekeeping(database_url, DlqSettings(), Kept()).once(own)
        finally:
            await own.close()

    assert sum(await asyncio.gather(*(service() for _ in range(4)))) == 40
    assert await numbers(connection) == []
    assert sum(act["removed"] for act in await recorded(connection)) == 40


async def test_the_report_of_the_last_week_is_written_once(
    connection: Connection, database_url: str, tmp_path: Path
) -> None:
    directory = tmp_path / "reports"
    house = Housekeeping(database_url, DlqSettings(report_directory=directory), Kept())
    await put(connection, aged(1, 20))
    await house.once(connection)
    (path,) = directory.iterdir()
    assert path.name.startswith("dead-letters-20")
    assert "| warehouse | 0 | 0 | 0 | 0 | 1 | 1 |" in path.read_text()
    path.write_text("what somebody made of it")
    await house.once(connection)
    assert path.read_text() == "what somebody made of it"


async def test_a_directory_that_cannot_be_written_is_told_of_and_stops_nothing(
    connection: Connection, database_url: str, tmp_path: Path, alerts: Kept
) -> None:
    (tmp_path / "file").write_text("")
    house = Housekeeping(database_url, DlqSettings(report_directory=tmp_path / "file"), alerts)
    await put(connection, settled(1, 31))
    assert await house.once(connection) == 1
    (alert,) = alerts.taken("report_not_written")
    assert "cannot be written to" in alert.sentence


async def test_it_waits_for_a_database_that_is_away_and_goes_on(
    connection: Connection, database_url: str, postgres_server: EmbeddedPostgres, alerts: Kept
) -> None:
    name = database_url.rpartition("/")[2]
    away = OUTAGES.labels("housekeeping", "database")
    before = away._value.get()
    house = Housekeeping(database_url, DlqSettings(housekeeping=timedelta(milliseconds=50)), alerts)
    running = asyncio.create_task(house.run())
    await put(connection, settled(1, 31))
    await eventually(lambda: _gone(connection, 1), what="the letter goes")
    server = await connect(postgres_server.url, name="test")
    await server.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")

    async def noticed() -> bool:
        return bool(away._value.get() == before + 1)

    await eventually(noticed, what="it is noticed")
    await put(connection, settled(2, 31))
    await server.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
    await server.close()
    await eventually(lambda: _gone(connection, 2), what="the next one goes")
    house.stop()
    await asyncio.wait_for(running, 10)


async def test_a_database_without_tables_ends_it_with_a_sentence(empty_database_url: str, alerts: Kept) -> None:
    with pytest.raises(SchemaOutdated, match="Run: surefoot migrate"):
        await asyncio.wait_for(Housekeeping(empty_database_url, DlqSettings(), alerts).run(), 30)


async def _gone(connection: Connection, number: int) -> bool:
    return number not in await numbers(connection)
