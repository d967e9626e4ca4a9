"""The weekly report on dead letters: its facts from the tables, and the file it is written to."""

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from pathlib import Path

from uuid_utils import uuid4

from surefoot.database.connection import Connection
from surefoot.database.schema import checked_schema
from surefoot.dlq.upkeep.report_text import ConsumerFacts, Decision, GroupFacts, ReportFacts, report_text

WEEK = timedelta(weeks=1)
MOST_GROUPS = 10
MOST_DISCARDS = 10


class ReportStatements:
    """$1 is when it begins, $2 when it ends. What came or was settled after that counts as not there, and as open."""

    def __init__(self, schema: str) -> None:
        events = f"{checked_schema(schema)}.dlq_events"
        decided = """CASE WHEN j.id IS NULL THEN coalesce(e.resolution, 'Nobody said why.')
            ELSE 'By ' || j.created_by || coalesce(', approved by ' || a.decided_by, '') || ': ' || j.reason END"""
        settled = "e.resolved_at >= $1::timestamptz AND e.resolved_at < $2::timestamptz"
        new = "e.received_at >= $1::timestamptz AND e.received_at < $2::timestamptz"
        is_open = "e.received_at < $2::timestamptz AND (e.resolved_at IS NULL OR e.resolved_at >= $2::timestamptz)"
        self.counts = f"""
            SELECT e.consumer, count(*) FILTER (WHERE {new}) AS new,
                count(*) FILTER (WHERE {settled} AND e.status = 'REPLAYED') AS replayed,
                count(*) FILTER (WHERE {settled} AND e.status = 'DISCARDED') AS discarded,
                count(*) FILTER (WHERE {settled} AND e.status = 'SUPERSEDED') AS superseded,
                count(*) FILTER (WHERE {is_open}) AS open,
                count(DISTINCT (e.topic, e.partition, e.key)) FILTER (WHERE {is_open} AND e.held) AS held_keys,
                min(e.first_failed_at) FILTER (WHERE {is_open}) AS oldest_open,
                percentile_cont(0.5) WITHIN GROUP (ORDER BY e.resolved_at - e.first_failed_at)
                    FILTER (WHERE {settled}) AS median_to_resolution
            FROM {events} e WHERE ({new}) OR ({settled}) OR ({is_open}) GROUP BY e.consumer ORDER BY e.consumer"""
        self.groups = f"""
            SELECT * FROM (
                SELECT x.*, row_number() OVER (PARTITION BY x.consumer ORDER BY x.open DESC, x.new DESC, x.fingerprint)
                FROM (
                    SELECT e.consumer, e.fingerprint, count(*) FILTER (WHERE {is_open}) AS open,
                        count(*) FILTER (WHERE {new}) AS new,
                        (array_agg(e.event_type ORDER BY e.failed_at DESC, e.id))[1] AS event_type,
                        (array_agg(e.error ORDER BY e.failed_at DESC, e.id))[1] AS sentence
                    FROM {events} e WHERE ({new}) OR ({is_open}) GROUP BY e.consumer, e.fingerprint) x) y
            WHERE row_number <= {MOST_GROUPS} ORDER BY consumer, row_number"""
        self.discards = f"""
            SELECT * FROM (
                SELECT x.*, row_number() OVER (PARTITION BY x.consumer ORDER BY x.count DESC, x.decided)
                FROM (
                    SELECT e.consumer, {decided} AS decided, count(*) AS count
                    FROM {events} e LEFT JOIN {schema}.dlq_jobs j ON j.id = e.job_id
                        LEFT JOIN {schema}.dlq_approvals a ON a.id = j.approval_id
                    WHERE {settled} AND e.status = 'DISCARDED' GROUP BY 1, 2) x) y
            WHERE row_number <= {MOST_DISCARDS} ORDER BY consumer, row_number"""


async def report(connection: Connection, schema: str, *, since: datetime, until: datetime) -> str:
    """The report on all consumers, as Markdown. Letters that retention has removed since are not in it."""
    return report_text(await facts(connection, schema, since=since, until=until))


async def facts(connection: Connection, schema: str, *, since: datetime, until: datetime) -> ReportFacts:
    sql = ReportStatements(schema)
    async with connection.transaction():
        groups: defaultdict[str, list[GroupFacts]] = defaultdict(list)
        for row in await connection.fetch(sql.groups, since, until):
            group = GroupFacts(row["fingerprint"], row["event_type"], row["sentence"], row["open"], row["new"])
            groups[row["consumer"]].append(group)
        discards: defaultdict[str, list[Decision]] = defaultdict(list)
        for row in await connection.fetch(sql.discards, since, until):
            discards[row["consumer"]].append(Decision(row["decided"], row["count"]))
        rows = await connection.fetch(sql.counts, since, until)
    consumers = [
        ConsumerFacts(
            consumer=row["consumer"],
            new=row["new"],
            replayed=row["replayed"],
            discarded=row["discarded"],
            superseded=row["superseded"],
            open=row["open"],
            held_keys=row["held_keys"],
            oldest_open=row["oldest_open"],
            median_to_resolution=row["median_to_resolution"],
            discards=tuple(discards[row["consumer"]]),
            groups=tuple(groups[row["consumer"]]),
        )
        for row in rows
    ]
    return ReportFacts(since, until, consumers)


def last_week(now: datetime) -> tuple[datetime, datetime]:
    """The last whole week before now, from Monday to Monday in UTC."""
    midnight = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    until = midnight - timedelta(days=midnight.weekday())
    return until - WEEK, until


def report_path(directory: Path, since: datetime) -> Path:
    year, week, _ = since.isocalendar()
    return directory / f"dead-letters-{year}-W{week:02}.md"


def write_report(path: Path, text: str) -> None:
    """Whole or not at all: several services may write the same one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{uuid4()}")
    try:
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
