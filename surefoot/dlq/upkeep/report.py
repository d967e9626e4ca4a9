"""The weekly report on dead letters: its facts from the tables, its text, and the file it is written to.

The text is Markdown; the same facts are the same text. What comes from events and from people is escaped: a report is
opened in browsers and pasted into tickets, and an error message must not become a link, a picture or a heading there.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from uuid_utils import uuid4

from surefoot.database.connection import Connection
from surefoot.database.schema import checked_schema
from surefoot.events.text import has_forbidden

WEEK = timedelta(weeks=1)
MOST_GROUPS = 10
MOST_DISCARDS = 10
QUOTED = 300
_MARKS = re.compile(r"([\\`*_{}\[\]<>()#!|~&@:$^\"'])")
_LEADING = re.compile(r"^([-+=])|^(\d+)([.)])")


@dataclass(frozen=True, slots=True)
class GroupFacts:
    fingerprint: str
    event_type: str | None
    sentence: str
    open: int
    new: int


@dataclass(frozen=True, slots=True)
class Decision:
    """Who discarded letters and why, and how many they were."""

    decided: str
    count: int


@dataclass(frozen=True, slots=True)
class ConsumerFacts:
    """A consumer's dead letters in the time of the report; what is open is open at its end."""

    consumer: str
    new: int = 0
    replayed: int = 0
    discarded: int = 0
    superseded: int = 0
    open: int = 0
    held_keys: int = 0
    oldest_open: datetime | None = None
    median_to_resolution: timedelta | None = None
    discards: Sequence[Decision] = ()
    """The most frequent."""
    groups: Sequence[GroupFacts] = ()
    """Those with most open."""


@dataclass(frozen=True, slots=True)
class ReportFacts:
    since: datetime
    until: datetime
    consumers: Sequence[ConsumerFacts]


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


def report_text(facts: ReportFacts) -> str:
    return "\n".join(_lines(facts)) + "\n"


def _lines(facts: ReportFacts) -> Iterator[str]:
    yield f"# Dead letters from {_time(facts.since)} to {_time(facts.until)}"
    yield ""
    consumers = sorted(facts.consumers, key=lambda one: one.consumer)
    if not consumers:
        yield "None came, none was decided, none is open."
        return
    yield "| consumer | new | replayed | discarded | superseded | open at the end | keys held |"
    yield "|---|---:|---:|---:|---:|---:|---:|"
    for one in consumers:
        counts = (one.new, one.replayed, one.discarded, one.superseded, one.open, one.held_keys)
        yield f"| {_name(one)} | {' | '.join(map(str, counts))} |"
    for one in consumers:
        yield ""
        yield from _section(one, facts.until)


def _section(one: ConsumerFacts, until: datetime) -> Iterator[str]:
    yield f"## {_name(one)}"
    yield ""
    yield f"- New: {one.new}"
    yield f"- Settled: {one.replayed} replayed, {one.discarded} discarded, {one.superseded} superseded"
    if one.median_to_resolution is not None:
        yield f"- Half of those were settled within {span(one.median_to_resolution)} of their first failure"
    if one.oldest_open is None:
        yield "- Still open: none"
    else:
        age = span(until - one.oldest_open)
        yield f"- Still open: {one.open}; the oldest since {_time(one.oldest_open)} ({age})"
    yield f"- Keys whose later events wait: {one.held_keys}"
    if one.groups:
        yield from ("", "### Groups with most open", "")
        yield "| open | new | event | what it says | group |"
        yield "|---:|---:|---|---|---|"
        for group in one.groups:
            event, sentence = escaped(group.event_type or "(no event)"), escaped(group.sentence)
            yield f"| {group.open} | {group.new} | {event} | {sentence} | {escaped(group.fingerprint)} |"
    if one.discards:
        yield from ("", "### Discarded, by whom and why", "")
        for discard in one.discards:
            letters = "1 letter" if discard.count == 1 else f"{discard.count} letters"
            yield f"- {letters}. {escaped(discard.decided)}"
        told = sum(discard.count for discard in one.discards)
        if told < one.discarded:
            yield f"- {one.discarded - told} more, for other reasons"


def _name(one: ConsumerFacts) -> str:
    return escaped(one.consumer) or "(letters that could not be read)"


def _time(time: datetime) -> str:
    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def escaped(text: str, limit: int = QUOTED) -> str:
    """A text that shows as itself in one line of Markdown, also in a table."""
    cut = text if len(text) <= limit else text[:limit] + "…"
    shown = cut.encode("utf-8", errors="replace").decode()
    plain = " ".join("".join(" " if has_forbidden(letter) else letter for letter in shown).split())
    marked = _MARKS.sub(r"\\\1", plain)
    return _LEADING.sub(lambda found: f"\\{found[1]}" if found[1] else f"{found[2]}\\{found[3]}", marked)


def span(time: timedelta) -> str:
    """A time as people say it, in its two largest units."""
    left = max(0, round(time.total_seconds()))
    parts = []
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)):
        many, left = divmod(left, size)
        if many:
            parts.append(f"{many} {unit}")
    return " ".join(parts[:2]) or "0 s"
