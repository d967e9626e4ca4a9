"""Pages of dead letters and of their groups: the statements they are read by, and cursors. Pure: texts and parameters.

A page must cost the same whatever is in the table. What names one thing (a key, a flow, a saga) has an index of its
own. Everything else is a matter of groups, which are few. A statement takes the groups that can have such letters, and
from each group and status the next letter in the order of an index. Of more groups than there are rows on the page,
only those whose next letter comes first can have a part in it; from these it takes the next few, and of those the
first. So nothing is read past only because it is newer, or of another consumer: a plain condition would read on until
it has found a page full.

A cursor names a place in an order that does not change, not a row: the row may be gone by then.
"""

import re
from datetime import UTC, datetime, timedelta
from uuid import UUID

from surefoot.dlq.errors import Declined
from surefoot.dlq.letters.filters import STATUSES, Conditions, Filter

LINE = """e.id, e.consumer, e.source, e.event_id, e.event_type, e.topic, e.partition, e.log_offset, e.key,
    e.correlation_id, e.saga_id, e.fingerprint, e.reason, e.error_type, e.error, e.attempts, e.replays, e.deaths,
    e.held, e.first_failed_at, e.failed_at, e.status::text AS status, e.job_id, e.resolution, e.resolved_at,
    e.superseded_by"""
GROUP = """g.fingerprint, g.consumer, g.event_type, g.reason, g.error_type, g.sentence, g.first_at, g.last_at, g.open,
    g.replaying, g.replayed, g.discard_requested, g.discarded, g.superseded"""
TOTAL = " + ".join(f"g.{status.lower()}" for status in STATUSES)
ONE_BY_ONE = "OFFSET 0"
"""Keeps the planner from looking for all such letters first, and then for their groups: of a time there may be very
many letters, and of groups there are few."""
Place = tuple[datetime, UUID] | UUID | None
Sql = tuple[str, list[object]]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_TIMED = re.compile(r"(-?[0-9]{1,18})_([^\x00]{1,200})", re.ASCII | re.DOTALL)


def events(schema: str, wanted: Filter, after: Place, limit: int, columns: str = LINE) -> Sql:
    """Newest first: by id, which rises with the time of taking in and never changes; where a time is asked for, by
    the time of failure."""
    order = "e.failed_at DESC, e.id DESC" if wanted.is_of_a_time else "e.id DESC"
    read = _by_group if _is_by_group(wanted) else _plainly
    if isinstance(after, tuple) and wanted.failed_before is not None and after[0] < wanted.failed_before:
        # What lies behind a place before that time lies before that time: of two ends, the scan may begin at the wrong
        # one.
        wanted = wanted.model_copy(update={"failed_before": None})
    page, values = read(schema, wanted, after, order, limit)
    text = f"SELECT {columns} FROM ({page}) page JOIN {schema}.dlq_events e ON e.id = page.id ORDER BY {order}"
    return text, values


def _plainly(schema: str, wanted: Filter, after: Place, order: str, limit: int) -> Sql:
    written = Conditions()
    written.texts, written.values = wanted.where("e")
    _behind(after, written)
    where = " AND ".join(written.texts) or "true"
    return f"SELECT e.id FROM {schema}.dlq_events e WHERE {where} ORDER BY {order} LIMIT {limit}", written.values


def _behind(after: Place, written: Conditions) -> None:
    if isinstance(after, tuple):
        time, last = written.parameter("timestamptz", after[0]), written.parameter("uuid", after[1])
        written.texts.append(f"(e.failed_at, e.id) < ({time}, {last})")
    elif after is not None:
        written.add("e.id < {}", "uuid", after)


def groups(schema: str, wanted: Filter, after: tuple[datetime, str] | None, limit: int) -> Sql:
    """The latest to begin first. A group is meant if it has a letter that is."""
    written = Conditions()
    _conditions_of_groups(wanted, written)
    written.texts.append(f"{TOTAL if wanted.status is None else f'g.{wanted.status.lower()}'} > 0")
    if wanted.names_one_thing:
        written.texts.append(_has_a_letter(schema, wanted, written))
    else:
        if wanted.is_of_a_time:
            written.texts.append(_has_a_letter(schema, _time_of(wanted), written, ONE_BY_ONE))
        written.texts.append(f"(NOT g.mixed OR {_has_a_letter(schema, wanted, written, ONE_BY_ONE)})")
    if after is not None:
        time, text = written.parameter("timestamptz", after[0]), written.parameter("text", after[1])
        written.texts.append(f"(g.first_at, g.fingerprint) < ({time}, {text})")
    return (
        f"""SELECT {GROUP} FROM {schema}.dlq_groups g WHERE {" AND ".join(written.texts)}
            ORDER BY g.first_at DESC, g.fingerprint DESC LIMIT {limit}""",
        written.values,
    )


def _has_a_letter(schema: str, wanted: Filter, written: Conditions, end: str = "") -> str:
    statuses = STATUSES if wanted.status is None else (wanted.status,)
    conditions, values = wanted.where("e", first=written.next)
    written.values += values
    where = " AND ".join(conditions) or "true"
    return f"""EXISTS (SELECT FROM {schema}.dlq_events e
        WHERE e.fingerprint = g.fingerprint AND e.status = ANY ('{{{",".join(statuses)}}}') AND {where} {end})"""


def _time_of(wanted: Filter) -> Filter:
    """Only what the index of a group and its times has."""
    return Filter(failed_after=wanted.failed_after, failed_before=wanted.failed_before, status=wanted.status)


def _is_by_group(wanted: Filter) -> bool:
    if wanted.names_one_thing:
        return False
    narrow = (wanted.consumer, wanted.event_type, wanted.error, wanted.reason, wanted.fingerprint)
    return any(each is not None for each in narrow) or (wanted.is_of_a_time and wanted.status is not None)


def _conditions_of_groups(wanted: Filter, written: Conditions) -> None:
    """What a letter has in common with its group, unless that is mixed: then its letters are looked at themselves."""
    written.equals("g.fingerprint", wanted.fingerprint)
    if wanted.failed_after is not None:
        written.add("g.last_at >= {}", "timestamptz", wanted.failed_after)
    if wanted.failed_before is not None:
        written.add("g.oldest_at < {}", "timestamptz", wanted.failed_before)
    before = len(written.texts)
    written.equals("g.consumer", wanted.consumer)
    written.equals("g.reason", wanted.reason)
    written.is_type("g.event_type", wanted.event_type)
    written.is_error("g.error_type", wanted.error)
    if len(written.texts) > before:
        written.texts[before:] = [f"(g.mixed OR {' AND '.join(written.texts[before:])})"]


def _by_group(schema: str, wanted: Filter, after: Place, order: str, limit: int) -> Sql:
    written = Conditions()
    _conditions_of_groups(wanted, written)
    if wanted.status is not None:
        written.texts.append(f"s.status = '{wanted.status}'")
    of_groups = " AND ".join(["s.many > 0", *written.texts])
    written.texts = []
    _behind(after, written)
    times, values = _time_of(wanted).where("e", first=written.next)
    written.values += values
    ahead = " AND ".join(
        [
            "e.fingerprint = heap.fingerprint AND e.status = heap.status",  # and nothing that is not in the index
            *written.texts,
            *times,
            f"(NOT heap.mixed OR {_is_meant(schema, wanted, written)})",
        ]
    )
    counted = ", ".join(f"('{status}'::{schema}.dlq_status, g.{status.lower()})" for status in STATUSES)
    text = f"""
        SELECT e.id FROM (
            SELECT heap.* FROM (
                SELECT g.fingerprint, g.mixed, s.status FROM {schema}.dlq_groups g
                    CROSS JOIN LATERAL (VALUES {counted}) AS s(status, many)
                WHERE {of_groups}) heap
            CROSS JOIN LATERAL (
                SELECT e.id, e.failed_at FROM {schema}.dlq_events e WHERE {ahead} ORDER BY {order} LIMIT 1) e
            ORDER BY {order} LIMIT {limit}) heap
        CROSS JOIN LATERAL (
            SELECT e.id, e.failed_at FROM {schema}.dlq_events e WHERE {ahead} ORDER BY {order} LIMIT {limit}) e
        ORDER BY {order} LIMIT {limit}"""
    return text, written.values


def _is_meant(schema: str, wanted: Filter, written: Conditions) -> str:
    """Of a letter in a mixed group, looked at by itself."""
    conditions, values = wanted.where("x", first=written.next)
    written.values += values
    return f"EXISTS (SELECT FROM {schema}.dlq_events x WHERE {' AND '.join(['x.id = e.id', *conditions])} {ONE_BY_ONE})"


class BadCursor(Declined):
    """A page was asked for from a place that is none."""

    def __init__(self) -> None:
        super().__init__(
            "The page cannot begin there: `after` must be the `next` of a page that was asked for by the same filter. "
            "Begin again without it."
        )


def by_id(after: str) -> UUID:
    try:
        return UUID(after)
    except ValueError:
        raise BadCursor from None


def by_time(after: str) -> tuple[datetime, UUID]:
    time, rest = by_time_and_text(after)
    return time, by_id(rest)


def by_time_and_text(after: str) -> tuple[datetime, str]:
    matched = _TIMED.fullmatch(after)
    if matched is None:
        raise BadCursor
    try:
        return _EPOCH + int(matched[1]) * _MICROSECOND, matched[2]
    except OverflowError:
        raise BadCursor from None


def timed(time: datetime, rest: object) -> str:
    return f"{(time - _EPOCH) // _MICROSECOND}_{rest}"
