"""Which dead letters a person means, locked: the set that a decision is about.

A set is frozen while its rows are locked, in the order of their ids. Whoever decides about one of them at the same time
waits, and then sees what was decided: it is left out of the second set.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from surefoot.database.connection import Connection, Row
from surefoot.database.schema import checked_schema
from surefoot.dlq.errors import NothingToDo, TooMany
from surefoot.dlq.jobs.set_hash import Line
from surefoot.dlq.jobs.views import LeftOut, WhyLeftOut
from surefoot.dlq.letters.filters import Filter
from surefoot.events.text import has_forbidden

LETTER_COLUMNS = """e.id::text AS id, e.consumer, e.source, e.event_id, e.topic, e.partition, e.log_offset, e.key,
    e.deaths, e.letter_id, e.status::text AS status"""
_IN_HAND = "('REPLAYING', 'DISCARD_REQUESTED')"


@dataclass(frozen=True, slots=True)
class Ids:
    """The letters' own ids, or the ids of the events."""

    ids: frozenset[str]


@dataclass(frozen=True, slots=True)
class Matching:
    """The open ones that a filter matches, when it is asked."""

    filter: Filter


Wanted = Ids | Matching


@dataclass(frozen=True, slots=True)
class Letter:
    """A dead letter of a set."""

    line: Line
    topic: str
    partition: int
    log_offset: int
    key: str

    @property
    def is_readable(self) -> bool:
        """A letter that could not be read has no consumer that could be told anything."""
        return self.line.consumer != ""

    @property
    def order(self) -> tuple[str, int, int, Line]:
        """That of the log, partition by partition."""
        return self.topic, self.partition, self.log_offset, self.line


@dataclass(frozen=True, slots=True)
class Found:
    open: tuple[Letter, ...]
    """In the order of the log."""
    left_out: tuple[LeftOut, ...]


def asked(wanted: Wanted) -> dict[str, object]:
    """As it is kept, and recorded."""
    if isinstance(wanted, Ids):
        return {"event_id": sorted(wanted.ids)}
    return {"filter": wanted.filter.model_dump(mode="json", exclude_none=True)}


class Finding:
    def __init__(self, connection: Connection, schema: str, most: int) -> None:
        self._connection = connection
        self._most = most
        events = f"{checked_schema(schema)}.dlq_events e"
        self.by_ids = f"""
            SELECT {LETTER_COLUMNS} FROM {events} WHERE e.id = ANY ($1::uuid[]) OR e.event_id = ANY ($2::text[])
            ORDER BY e.id FOR UPDATE"""
        self.by_filter = f"""
            SELECT {LETTER_COLUMNS} FROM {events} WHERE e.status = 'OPEN' AND {{conditions}}
            ORDER BY e.id LIMIT $1::int FOR UPDATE"""
        self.in_hand = f"""
            SELECT status::text, count(*) FROM (
                SELECT e.status FROM {events} WHERE e.status IN {_IN_HAND} AND {{conditions}} LIMIT $1::int) x
            GROUP BY 1"""

    async def lock(self, wanted: Wanted, *, unreadable_too: bool) -> Found:
        """The open ones of what is wanted, and how many are left out and why. None at all is NothingToDo."""
        rows, left_out = await (self._ids(wanted) if isinstance(wanted, Ids) else self._matching(wanted))
        taken: list[Letter] = []
        for row in rows:
            letter = letter_of(row)
            if row["status"] != "OPEN":
                left_out[row["status"].lower()] += 1
            elif not (letter.is_readable or unreadable_too):
                left_out["unreadable"] += 1
            else:
                taken.append(letter)
        if len(taken) > self._most:
            raise self._too_many()
        found = Found(tuple(sorted(taken, key=lambda letter: letter.order)), _left_out(left_out))
        if not taken:
            raise NothingToDo(_nothing(found.left_out))
        return found

    async def _ids(self, wanted: Ids) -> tuple[Sequence[Row], Counter[WhyLeftOut]]:
        if len(wanted.ids) > self._most:
            raise self._too_many()
        texts = [one for one in wanted.ids if not has_forbidden(one)]
        rows = await self._connection.fetch(self.by_ids, [one for one in texts if is_uuid(one)], texts)
        known = {row["id"] for row in rows} | {row["event_id"] for row in rows}
        unknown = sum(1 for one in wanted.ids if one not in known and _plain(one) not in known)
        return rows, Counter({"no_such_letter": unknown} if unknown else {})

    async def _matching(self, wanted: Matching) -> tuple[Sequence[Row], Counter[WhyLeftOut]]:
        conditions, values = wanted.filter.where("e", first=2)
        text = " AND ".join(conditions) or "true"
        rows = await self._connection.fetch(self.by_filter.format(conditions=text), self._most + 1, *values)
        counted = await self._connection.fetch(self.in_hand.format(conditions=text), self._most + 1, *values)
        return rows, Counter({row[0].lower(): row[1] for row in counted})

    def _too_many(self) -> TooMany:
        return TooMany(f"More than {self._most} dead letters were asked for, which is the most at once: ask for fewer.")


def is_uuid(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True


def _plain(text: str) -> str:
    """An id may be written in capitals, or without its dashes."""
    return str(UUID(text)) if is_uuid(text) else text


def letter_of(row: Row) -> Letter:
    line = Line(row["id"], row["consumer"], row["source"], row["event_id"], row["deaths"], row["letter_id"])
    return Letter(line, row["topic"], row["partition"], row["log_offset"], row["key"])


def _left_out(counted: Counter[WhyLeftOut]) -> tuple[LeftOut, ...]:
    return tuple(LeftOut(why=why, many=many) for why, many in sorted(counted.items()))


def _nothing(left_out: Sequence[LeftOut]) -> str:
    if not left_out:
        return "There is no open dead letter like this: somebody decided about them before, or there are none."
    said = ", ".join(f"{one.many} {one.why.replace('_', ' ')}" for one in left_out)
    return f"None of what was asked for is open ({said}): somebody decided about it before. Look again."
