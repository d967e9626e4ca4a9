"""The store in memory: the layer's own decisions over rows that are replaced under their fence.

Has the store's verbs, as far as the model needs them, and a clock that can be moved.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

from surefoot.idempotency.deciding import Again, Claimable, First, StoredKey, TakeOver, behind_lock, claim_of, decide
from surefoot.idempotency.settings import Route
from surefoot.idempotency.store import FirstPhase
from surefoot.idempotency.values import Answer, Asked, Claim, FenceLost, Found, State, StoredRequest
from tests.support.idempotency_model.reference import Rules

START = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Row:
    stored: StoredKey
    minted: Mapping[str, Any] = field(default_factory=dict)
    provider_key: str | None = None
    phases: Mapping[str, Any] = field(default_factory=dict)
    leased_at: datetime | None = None
    due_at: datetime | None = None
    unknown: bool = False


class MemoryStore:
    """One key."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.now = START
        self.row: Row | None = None
        self.locked_by: MemoryBegun | None = None

    async def begin(self, asked: Asked, route: Route) -> "MemoryBegun | Found":
        stored = None if self.row is None else self.row.stored
        decision = decide(stored, asked, self.now, most_attempts=route.attempts)
        decision = behind_lock(decision, had=self.locked_by is None, lease_s=self.rules.lease.total_seconds())
        if not isinstance(decision, First | Again | TakeOver):
            return decision
        claim = claim_of(decision, asked, self.now)
        if isinstance(decision, TakeOver) and asked.effect == "outside":
            claim = self._resumed(claim)
        self.locked_by = MemoryBegun(self, route, decision, claim)
        return self.locked_by

    @asynccontextmanager
    async def phase(self, claim: Claim, name: str) -> AsyncIterator[SimpleNamespace]:
        unit = SimpleNamespace(result=None)
        yield unit
        row = self.mine(claim)
        assert name not in row.phases, "a phase is committed once"
        self.row = replace(row, phases={**row.phases, name: unit.result})

    async def renew(self, claim: Claim) -> bool:
        try:
            row = self.mine(claim)
        except FenceLost:
            return False
        assert row.leased_at is not None
        longest = row.leased_at + self.rules.longest_lease
        if row.stored.lease_until is None or row.stored.lease_until >= longest:
            return False
        until = min(self.now + self.rules.lease, longest)
        self.row = replace(row, stored=replace(row.stored, lease_until=until))
        return True

    async def complete(self, claim: Claim, answer: Answer, state: State) -> None:
        row = self.mine(claim)
        replay_until, gone_until = self.windows(row.stored)
        stored = replace(row.stored, state=state, answer=answer, lease_until=None, replay_until=replay_until,
                         gone_until=gone_until)  # fmt: skip
        self.row = replace(row, stored=stored, due_at=None, unknown=False)

    async def fail(self, claim: Claim, *, error: str, unknown: bool, retry_in: timedelta, most_attempts: int) -> bool:
        row = self.mine(claim)
        stored = replace(row.stored, state="FAILED_RETRY", lease_until=None)
        self.row = replace(row, stored=stored, due_at=self.now + retry_in, unknown=row.unknown or unknown)
        return row.stored.attempts >= most_attempts

    async def forget(self, claim: Claim) -> bool:
        row = self.mine(claim)
        assert not row.unknown, "the model forgets first attempts only"
        assert not row.phases
        self.row = None
        return True

    async def overdue(self, limit: int, grace: timedelta) -> list[bytes]:
        if self.row is None or self.row.stored.effect == "local":
            return []
        stored = self.row.stored
        late = stored.state == "IN_FLIGHT" and stored.lease_until is not None and stored.lease_until + grace < self.now
        due = stored.state == "FAILED_RETRY" and self.row.due_at is not None and self.row.due_at <= self.now
        return [b"key"] if late or due else []

    async def take_over(self, key_hash: bytes) -> tuple[Claim, StoredRequest] | None:
        if self.row is None or self.locked_by is not None or not await self.overdue(1, self.rules.grace):
            return None
        stored = self.row.stored
        asked = Asked("tenant", key_hash, "route", "outside", stored.fingerprint, stored.fingerprint_version)
        claim = self._resumed(claim_of(TakeOver(stored), asked, self.now))
        self.row = self.taken(self.row)
        return claim, StoredRequest("POST", "/", "", (), b"", "tenant")

    async def expire(self, batch: int) -> int:
        if self.row is None or self.row.stored.answer is None or self.now < self.row.stored.replay_until:
            return 0
        self.row = replace(self.row, stored=replace(self.row.stored, state="EXPIRED", answer=None))
        return 1

    async def reap(self, batch: int) -> int:
        if self.row is None or self.locked_by or self.row.stored.is_open or self.now < self.row.stored.gone_until:
            return 0
        self.row = None
        return 1

    def mine(self, claim: Claim) -> Row:
        if self.row is None or self.row.stored.state != "IN_FLIGHT" or self.row.stored.fence != claim.fence:
            raise FenceLost("not the current one")
        if self.row.stored.created_at != claim.created_at:
            raise FenceLost("another life of the key")
        return self.row

    def taken(self, row: Row) -> Row:
        stored = replace(row.stored, fence=row.stored.fence + 1, attempts=row.stored.attempts + 1, state="IN_FLIGHT",
                         lease_until=self.now + self.rules.lease)  # fmt: skip
        unknown = row.unknown or row.stored.state == "IN_FLIGHT"
        return replace(row, stored=stored, leased_at=self.now, due_at=None, unknown=unknown)

    def windows(self, stored: StoredKey) -> tuple[datetime, datetime]:
        start = stored.created_at if stored.replay_until > self.now else self.now
        return start + self.rules.replay_for, start + self.rules.replay_for + self.rules.gone_for

    def _resumed(self, claim: Claim) -> Claim:
        assert self.row is not None
        return replace(claim, minted=self.row.minted, provider_key=self.row.provider_key, phases=self.row.phases)


class MemoryBegun:
    """An open transaction: it holds the lock, and nobody sees what it has done."""

    def __init__(self, store: MemoryStore, route: Route, decision: Claimable, claim: Claim) -> None:
        self.store = store
        self.route = route
        self.decision = decision
        self.claim = claim

    async def keep(
        self,
        minted: Mapping[str, Any],
        resource: str | None,
        provider_key: str,
        request: StoredRequest,
        phase: FirstPhase | None = None,
    ) -> Claim:
        if isinstance(self.decision, TakeOver):
            assert self.store.row is not None
            row = self.store.taken(self.store.row)
        else:
            row = self._new("IN_FLIGHT", self.store.now + self.store.rules.lease)
        kept = {**minted, **self.claim.minted}
        key = self.claim.provider_key or provider_key
        phases = row.phases if phase is None else {**row.phases, phase.name: phase.result}
        self.store.row = replace(row, minted=kept, provider_key=key, phases=phases)
        await self.release()
        self.claim = replace(self.claim, minted=kept, provider_key=key)
        return self.claim

    async def undo(self) -> None:
        return None

    async def finish(self, answer: Answer, state: State) -> None:
        row = self._new(state, None)
        if state == "FAILED_RETRY":
            self.store.row = row
        else:
            replay_until, gone_until = self.store.windows(row.stored)
            self.store.row = replace(row, stored=replace(row.stored, answer=answer, replay_until=replay_until,
                                                         gone_until=gone_until))  # fmt: skip
        await self.release()

    async def release(self) -> None:
        assert self.store.locked_by is self
        self.store.locked_by = None

    def _new(self, state: State, lease_until: datetime | None) -> Row:
        asked, rules = self.claim.asked, self.store.rules
        replay_until = self.claim.created_at + rules.replay_for
        return Row(
            StoredKey(
                state,
                asked.effect,
                asked.fingerprint,
                asked.fingerprint_version,
                self.claim.fence,
                self.claim.attempt,
                self.claim.created_at,
                lease_until,
                replay_until,
                replay_until + rules.gone_for,
            ),
            leased_at=self.store.now,
        )
