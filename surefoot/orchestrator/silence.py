"""When silence counts. Pure.

A step's clock starts when its command was published. When it has run out, nothing is decided yet: the answer may lie
in a topic that we have not read, in an outbox that no relay has emptied, or parked; or nobody has even read the
command. So the end of the command's topic is noted; when its reader is past that, the end of the outbox; when the relay
is past that, the ends of the replies' topics: an answer that was given meanwhile lies before the next end. Only if all
of that flowed promptly is silence taken for silence. If it did not, something was away: the clock starts anew. An
outage delays sagas, it cancels none.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Literal, get_type_hints

from surefoot.events import EventData, Topic, event_type_of
from surefoot.events.event import Direction
from surefoot.log.port import TopicPartition, key_hash, partition_of
from surefoot.saga.definition import Make, Step

Offsets = Mapping[TopicPartition, int]
Why = Literal["unpublished", "unread", "replies_lag", "relay_lags", "parked"]


@dataclass(frozen=True, slots=True)
class Due:
    """A timer that has run out, by the database's clock."""

    saga_id: str
    entity_id: str
    step: str
    direction: Direction
    attempt: int
    kind: Literal["timeout", "rest", "deadline"]
    after: timedelta
    now: datetime
    outbox_status: str | None = None
    """Of the command; None if there is none, or it was published so long ago that the outbox has forgotten it."""
    published_at: datetime | None = None
    reader: tuple[str, TopicPartition] | None = None
    """The consumer that reads the command, and where; None if that does not matter."""
    saga_type: str = ""

    @property
    def identity(self) -> tuple[str, str, str, int, str]:
        return (self.saga_id, self.step, self.direction, self.attempt, self.kind)


@dataclass(frozen=True, slots=True)
class Evidence:
    """How far everybody is."""

    ends: Offsets
    """Of the topics that replies come by, and of those that commands go to."""
    read: Offsets
    """Up to where we have read the replies."""
    readers: Mapping[str, Offsets]
    """Up to where each consumer of commands has read."""
    last_written: int
    first_unsent: int | None
    """Positions in this database's outbox: the newest; the oldest on a topic of replies that waits for a relay."""
    parked: AbstractSet[str]
    """Sagas and entities of which an event is parked or dead in front of us, or refused or held in the outbox."""
    parked_waits: AbstractSet[tuple[str, str]] = frozenset()
    """Types of sagas, and waits of theirs, for which something is parked that may be about any of them."""


@dataclass(frozen=True, slots=True)
class Suspicion:
    """The ends to listen up to. Each is noted when everything has flowed past the one before it; None until then."""

    since: datetime
    replies: Offsets | None
    command: int | None
    """None if it does not matter who has read it."""
    written: int | None
    checks: int = 0


@dataclass(frozen=True, slots=True)
class Counts:
    """Nobody has answered."""


@dataclass(frozen=True, slots=True)
class NotBefore:
    """Its clock has not run out: look again then."""

    at: datetime
    why: Why


@dataclass(frozen=True, slots=True)
class Listen:
    """Not known yet: look again after this time."""

    suspicion: Suspicion
    after: timedelta
    why: Why | None


Verdict = Counts | NotBefore | Listen
FIRST_LOOK = timedelta(milliseconds=200)
LAST_LOOK = timedelta(seconds=5)


def judge(
    due: Due, evidence: Evidence, suspicion: Suspicion | None, grace: timedelta, topics: AbstractSet[str]
) -> Verdict:
    """`topics`: those that replies come by."""
    if due.kind == "rest":
        return Counts()
    if due.outbox_status not in (None, "PUBLISHED", "RELEASED"):
        return NotBefore(due.now + min(due.after, LAST_LOOK), "unpublished")
    if due.published_at is not None and due.published_at + due.after > due.now:
        return NotBefore(due.published_at + due.after, "unpublished")
    if suspicion is None:
        return Listen(begin(due, evidence, topics), FIRST_LOOK, None)
    suspicion, why = lagging(due, evidence, suspicion, topics)
    if why is not None:
        checked = replace(suspicion, checks=suspicion.checks + 1)
        return Listen(checked, min(LAST_LOOK, FIRST_LOOK * 2 ** min(suspicion.checks, 8)), why)
    if due.now - suspicion.since <= grace:
        return Counts()
    if due.kind == "deadline":  # days, perhaps: not to be waited for anew because of a minute's outage
        return Listen(begin(due, evidence, topics), FIRST_LOOK, None)
    return NotBefore(due.now + due.after, "replies_lag")


def begin(due: Due, evidence: Evidence, topics: AbstractSet[str]) -> Suspicion:
    command = None if due.reader is None else evidence.ends.get(due.reader[1])
    return lagging(due, evidence, Suspicion(due.now, None, command, None), topics)[0]


def lagging(
    due: Due, evidence: Evidence, suspicion: Suspicion, topics: AbstractSet[str]
) -> tuple[Suspicion, Why | None]:
    """What has not flowed past the end that was noted; and the suspicion, with the ends that can be noted by now."""
    if due.saga_id in evidence.parked or due.entity_id in evidence.parked:
        return suspicion, "parked"
    if (due.saga_type, due.step) in evidence.parked_waits:
        return suspicion, "parked"
    if due.reader is not None and suspicion.command is not None:
        name, where = due.reader
        if evidence.readers.get(name, {}).get(where, 0) < suspicion.command:
            return suspicion, "unread"
    written = evidence.last_written if suspicion.written is None else suspicion.written
    suspicion = replace(suspicion, written=written)
    if evidence.first_unsent is not None and evidence.first_unsent <= written:
        return suspicion, "relay_lags"
    replies = suspicion.replies
    if replies is None:
        replies = {where: end for where, end in evidence.ends.items() if where.topic in topics}
        suspicion = replace(suspicion, replies=replies)
    if any(evidence.read.get(where, 0) < end for where, end in replies.items()):
        return suspicion, "replies_lag"
    return suspicion, None


Reader = tuple[str, TopicPartition]
"""A consumer's name, and the partition."""


def reader_of(step: Step, direction: Direction, saga_id: str) -> Reader | None:
    """None if the function does not say what it sends."""
    make = step.do if direction == "do" else step.undo
    topic = None if make is None else topic_of(make)
    if topic is None:
        return None
    where = TopicPartition(topic.name, partition_of(key_hash(saga_id.encode()), topic.partitions))
    return step.handled_by or topic.name.split(".", 1)[0], where


@lru_cache(maxsize=4096)
def topic_of(make: Make) -> Topic | None:
    sent = get_type_hints(make).get("return")
    return event_type_of(sent).topic if isinstance(sent, type) and issubclass(sent, EventData) else None
