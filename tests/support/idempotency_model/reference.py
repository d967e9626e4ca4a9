"""What must be true of a key, told by what has happened to it. Pure; knows no row, no fence and no SQL.

A key has lives: from a first request until it is new again. Everything is read from the facts of the last one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from surefoot.idempotency.values import Answer, Effect

Verdict = Literal["begin", "resume", "answered", "mismatch", "gone", "in_flight", "unknown"]


@dataclass(frozen=True, slots=True)
class Rules:
    lease: timedelta
    longest_lease: timedelta
    grace: timedelta
    replay_for: timedelta
    gone_for: timedelta
    attempts: int


# -- what can happen; `by` is the number of the attempt, never used twice ----------------------------------------------


@dataclass(frozen=True, slots=True)
class Began:
    by: int
    at: datetime
    asks: bytes
    effect: Effect


@dataclass(frozen=True, slots=True)
class Resumed:
    by: int
    at: datetime


@dataclass(frozen=True, slots=True)
class Renewed:
    by: int
    at: datetime


@dataclass(frozen=True, slots=True)
class Kept:
    by: int
    minted: str
    provider_key: str


@dataclass(frozen=True, slots=True)
class Phased:
    by: int
    name: str
    result: Any


@dataclass(frozen=True, slots=True)
class Failed:
    by: int
    due_at: datetime | None


@dataclass(frozen=True, slots=True)
class Settled:
    by: int
    at: datetime
    answer: Answer


@dataclass(frozen=True, slots=True)
class Forgotten:
    by: int


Fact = Began | Resumed | Renewed | Kept | Phased | Failed | Settled | Forgotten


class Reference:
    """One key and the rules of its route."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.lives: list[list[Fact]] = []

    def happened(self, *facts: Fact) -> None:
        for fact in facts:
            if isinstance(fact, Began):
                self.lives.append([])
            self.lives[-1].append(fact)

    # -- the life it is in ---------------------------------------------------------------------------------------------

    @property
    def life(self) -> Sequence[Fact]:
        if not self.lives or any(isinstance(fact, Forgotten) for fact in self.lives[-1]):
            return ()
        return self.lives[-1]

    @property
    def began(self) -> Began | None:
        return next((fact for fact in self.life if isinstance(fact, Began)), None)

    @property
    def settled(self) -> Settled | None:
        return next((fact for fact in self.life if isinstance(fact, Settled)), None)

    @property
    def kept(self) -> Kept | None:
        """The first time it was kept: what was minted then is what counts."""
        return next((fact for fact in self.life if isinstance(fact, Kept)), None)

    @property
    def phases(self) -> dict[str, Any]:
        return {fact.name: fact.result for fact in self.life if isinstance(fact, Phased)}

    @property
    def attempts(self) -> int:
        return sum(isinstance(fact, Began | Resumed) for fact in self.life)

    @property
    def holder(self) -> int | None:
        """The attempt that may write: the last one that has neither failed nor settled it."""
        last: int | None = None
        for fact in self.life:
            if isinstance(fact, Began | Resumed):
                last = fact.by
            elif isinstance(fact, Failed | Settled):
                last = None
        return last

    @property
    def lease_until(self) -> datetime | None:
        """Of the holder: so long after the claim or its last renewal, and never longer than it may be in all."""
        if self.holder is None:
            return None
        claimed_at = [fact.at for fact in self.life if isinstance(fact, Began | Resumed)][-1]
        alive_at = [fact.at for fact in self.life if isinstance(fact, Began | Resumed | Renewed)][-1]
        return min(alive_at + self.rules.lease, claimed_at + self.rules.longest_lease)

    @property
    def due_at(self) -> datetime | None:
        """When it is to be gone on with, if the last attempt has failed."""
        failed = [fact for fact in self.life if isinstance(fact, Failed)]
        return failed[-1].due_at if failed and self.holder is None and self.settled is None else None

    @property
    def windows(self) -> tuple[datetime, datetime]:
        """The answer is given until the first, the key is gone until the second. An answer that came after its time
        is given for as long as any other."""
        assert self.began is not None
        replay_until = self.began.at + self.rules.replay_for
        start = self.began.at
        if self.settled is not None and self.settled.at >= replay_until:
            start = self.settled.at
        return start + self.rules.replay_for, start + self.rules.replay_for + self.rules.gone_for

    # -- what must be answered -----------------------------------------------------------------------------------------

    def verdict(self, asks: bytes, now: datetime) -> Verdict:
        """On a request, if no transaction has the key open."""
        if self.began is None:
            return "begin"
        replay_until, gone_until = self.windows
        may_have_called = self.began.effect == "outside" and self.settled is None
        if now >= gone_until and not may_have_called:
            return "begin"
        if asks != self.began.asks:
            return "mismatch"
        if self.settled is not None:
            return "answered" if now < replay_until else "gone"
        if self.lease_until is not None and now < self.lease_until:
            return "in_flight"
        if self.began.effect == "outside" and self.attempts >= self.rules.attempts:
            return "unknown"
        return "resume"

    def is_overdue(self, now: datetime) -> bool:
        """Whether the completer is to go on with it."""
        if self.began is None or self.began.effect == "local" or self.settled is not None:
            return False
        if self.lease_until is not None:
            return now > self.lease_until + self.rules.grace
        return self.due_at is not None and now >= self.due_at

    def can_renew(self, by: int) -> bool:
        if self.holder != by or self.lease_until is None:
            return False
        claimed_at = [fact.at for fact in self.life if isinstance(fact, Began | Resumed)][-1]
        return self.lease_until < claimed_at + self.rules.longest_lease
