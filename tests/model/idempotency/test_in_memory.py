"""Thousands of interleavings over the layer's own decisions, in memory; and that the model would notice if something
were missing.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, get_args

import pytest

from surefoot.idempotency import deciding
from surefoot.idempotency.values import Answer, Asked, Claim
from tests.support.idempotency_model import memory_store
from tests.support.idempotency_model.interleaving import RULES, play, world_of
from tests.support.idempotency_model.memory_store import MemoryBegun, MemoryStore, Row
from tests.support.idempotency_model.reference import Verdict
from tests.support.idempotency_model.world import Worker

INTERLEAVINGS = 4_000
UNTIL_NOTICED = 2_000


class InMemory:
    def __init__(self) -> None:
        self.store = MemoryStore(RULES)

    def now(self) -> datetime:
        return self.store.now

    async def advance(self, by: timedelta, workers: list[Worker]) -> None:
        self.store.now += by

    async def quiet(self, workers: list[Worker]) -> None:
        return None


@pytest.mark.proof
async def test_in_thousands_of_interleavings_every_promise_is_kept() -> None:
    verdicts: Counter[Verdict] = Counter()
    for seed in range(INTERLEAVINGS):
        world = world_of(seed, InMemory(), b"key")
        try:
            await play(world)
        except AssertionError as broken:
            raise AssertionError(f"seed {seed}: {broken}") from broken
        verdicts += world.verdicts
    assert all(verdicts[verdict] > 50 for verdict in get_args(Verdict)), verdicts


# -- each protection, taken out ----------------------------------------------------------------------------------------


def without_the_fence(change: pytest.MonkeyPatch) -> None:
    def mine(self: MemoryStore, claim: Claim) -> Row:
        assert self.row is not None
        return self.row

    change.setattr(MemoryStore, "mine", mine)


def without_the_time_of_the_first_request(change: pytest.MonkeyPatch) -> None:
    """A key that was deleted and came back begins at the first fence again."""
    real = MemoryStore.mine

    def mine(self: MemoryStore, claim: Claim) -> Row:
        assert self.row is not None
        return real(self, replace(claim, created_at=self.row.stored.created_at))

    change.setattr(MemoryStore, "mine", mine)


def without_the_lock(change: pytest.MonkeyPatch) -> None:
    change.setattr(memory_store, "behind_lock", lambda decision, **_: decision)

    async def release(self: MemoryBegun) -> None:
        self.store.locked_by = None

    change.setattr(MemoryBegun, "release", release)


def without_the_fingerprint(change: pytest.MonkeyPatch) -> None:
    real = deciding.decide

    def decide(stored: Any, asked: Asked, *rest: Any, **more: Any) -> Any:
        same = asked if stored is None else replace(asked, fingerprint=stored.fingerprint)
        return real(stored, same, *rest, **more)

    change.setattr(memory_store, "decide", decide)


def without_the_providers_key(change: pytest.MonkeyPatch) -> None:
    real = MemoryBegun.keep

    async def keep(self: MemoryBegun, *args: Any) -> Claim:
        self.claim = replace(self.claim, provider_key=None)
        return await real(self, *args)

    change.setattr(MemoryBegun, "keep", keep)


def without_what_was_minted(change: pytest.MonkeyPatch) -> None:
    real = MemoryBegun.keep

    async def keep(self: MemoryBegun, *args: Any) -> Claim:
        self.claim = replace(self.claim, minted={})
        return await real(self, *args)

    change.setattr(MemoryBegun, "keep", keep)


def without_the_lease(change: pytest.MonkeyPatch) -> None:
    real = deciding.decide

    def decide(stored: Any, *rest: Any, **more: Any) -> Any:
        return real(None if stored is None else replace(stored, lease_until=None), *rest, **more)

    change.setattr(memory_store, "decide", decide)


def without_the_limit_of_attempts(change: pytest.MonkeyPatch) -> None:
    real = deciding.decide

    def decide(*given: Any, most_attempts: int | None = None) -> Any:
        return real(*given)

    change.setattr(memory_store, "decide", decide)


def without_the_stored_answer(change: pytest.MonkeyPatch) -> None:
    real = MemoryStore.complete

    async def complete(self: MemoryStore, claim: Claim, answer: Answer, *rest: Any) -> None:
        await real(self, claim, replace(answer, body=b"made anew"), *rest)

    change.setattr(MemoryStore, "complete", complete)


def without_phases(change: pytest.MonkeyPatch) -> None:
    real = MemoryStore._resumed

    def resumed(self: MemoryStore, claim: Claim) -> Claim:
        return replace(real(self, claim), phases={})

    change.setattr(MemoryStore, "_resumed", resumed)


def without_care_for_what_is_open(change: pytest.MonkeyPatch) -> None:
    """The reaper deletes what a provider may have been called for."""

    async def reap(self: MemoryStore, batch: int) -> int:
        if self.row is not None and self.now >= self.row.stored.gone_until:
            self.row = None
        return 0

    change.setattr(MemoryStore, "reap", reap)


def without_the_completer(change: pytest.MonkeyPatch) -> None:
    async def overdue(self: MemoryStore, limit: int, grace: timedelta) -> list[bytes]:
        return []

    change.setattr(MemoryStore, "overdue", overdue)


@pytest.mark.parametrize(
    "take_out",
    [
        without_the_fence,
        without_the_time_of_the_first_request,
        without_the_lock,
        without_the_fingerprint,
        without_the_providers_key,
        without_what_was_minted,
        without_the_lease,
        without_the_limit_of_attempts,
        without_the_stored_answer,
        without_phases,
        without_care_for_what_is_open,
        without_the_completer,
    ],
)
async def test_the_model_notices_what_is_missing(
    take_out: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    take_out(monkeypatch)
    with pytest.raises(AssertionError):
        for seed in range(UNTIL_NOTICED):
            await play(world_of(seed, InMemory(), b"key"))
