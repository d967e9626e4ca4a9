"""What a person asks for: which dead letters, why, how fast, and the set that it comes to. Pure.

A request takes a role and a reason. It names dead letters by their ids or by a filter. The set that is found for it
has a hash, which two people agree on before anything is discarded: another death of one of them is another letter, and
changes the hash. So what is approved is exactly what was looked at.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from math import isfinite
from typing import NamedTuple
from uuid import UUID

import orjson

from surefoot.audit.people import Person, Role
from surefoot.consumer.contracts import Action, Replacement
from surefoot.dlq.errors import InvalidRequest, NotAllowed
from surefoot.dlq.letters.filters import Filter
from surefoot.events.text import printable

MAX_REASON = 2000
MAX_RATE = 100_000.0


def require(person: Person, role: Role) -> None:
    if not person.may(role):
        raise NotAllowed(f"{person.name} is {person.role}, and this takes {role}: ask somebody who is.")


def reason_of(text: str) -> str:
    """The reason as it is kept: it has to be there, and it has to fit."""
    reason = printable(text.strip(), MAX_REASON + 1)
    if not reason:
        raise InvalidRequest("There is no reason given: say why, in a sentence that others will understand later.")
    if len(reason) > MAX_REASON:
        raise InvalidRequest(f"The reason is longer than {MAX_REASON} characters: make it shorter.")
    return reason


@dataclass(frozen=True, slots=True)
class Ids:
    """The letters' own ids, or the ids of the events."""

    ids: frozenset[str]


@dataclass(frozen=True, slots=True)
class Matching:
    """The open ones that a filter matches, when it is asked."""

    filter: Filter


Wanted = Ids | Matching


def asked(wanted: Wanted) -> dict[str, object]:
    """As it is kept, and recorded."""
    if isinstance(wanted, Ids):
        return {"event_id": sorted(wanted.ids)}
    return {"filter": wanted.filter.model_dump(mode="json", exclude_none=True)}


def is_uuid(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class Pace:
    """How a job goes on. Checked when it is made."""

    canary: int = 0
    """So many first; the rest if all of them went well."""
    rate: float | None = None
    """Control records a second, at most."""
    stop_on_error_rate: float | None = None
    """It pauses when more than this share of the answers are failures."""

    def __post_init__(self) -> None:
        if self.canary < 0:
            raise InvalidRequest(f"canary is {self.canary}: it is a number of dead letters, 0 for none.")
        if self.rate is not None and not (isfinite(self.rate) and 0 < self.rate <= MAX_RATE):
            raise InvalidRequest(f"rate is {self.rate}: it is a number a second, above 0 and up to {MAX_RATE:,.0f}.")
        share = self.stop_on_error_rate
        if share is not None and not 0 <= share <= 1:
            raise InvalidRequest(f"stop_on_error_rate is {share}: it is a share, between 0 and 1.")


@dataclass(frozen=True, slots=True)
class Order:
    """A job as it is asked for."""

    kind: Action
    by: str
    reason: str
    asked: dict[str, object]
    pace: Pace = Pace()
    approval_id: str | None = None
    replacement: Replacement | None = None


class Line(NamedTuple):
    """What of a dead letter counts for the hash of its set."""

    dlq_id: str
    consumer: str
    source: str
    event_id: str
    deaths: int
    letter_id: str


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


def set_hash(lines: Iterable[Line]) -> str:
    """SHA-256 in hexadecimal, the same in whatever order they come. Each is a JSON list, so that no text can pass for
    the end of one and the beginning of the next."""
    together = hashlib.sha256()
    for line in sorted(lines):
        together.update(orjson.dumps(list(line)) + b"\n")
    return together.hexdigest()
