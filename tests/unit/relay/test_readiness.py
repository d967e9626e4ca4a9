"""When a relay says that it is ready: it takes part, and what it publishes to is not away."""

from datetime import timedelta

import pytest

from surefoot.database.leases import Leases, Standing
from surefoot.errors import LogUnavailable
from surefoot.relay.lane import STILL_TRIED_S, Ownership, TopicsAway
from surefoot.relay.settings import RelaySettings

LEASE = timedelta(seconds=10)


class Beats(Leases):
    """Another relay owns everything."""

    def __init__(self) -> None:
        pass

    async def heartbeat(self, *, acquire: bool = True) -> Standing:
        return Standing(held={}, surplus=frozenset(), members=2, units=8)


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr("surefoot.relay.lane.time", self)

    def monotonic(self) -> float:
        return self.now


async def test_a_relay_takes_part_from_its_first_heartbeat_until_its_lease_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock(monkeypatch)
    ownership = Ownership(lanes=1, on_gain=lambda: None)
    assert not ownership.finding(LEASE).ok
    await ownership.beat(Beats())
    found = ownership.finding(LEASE)
    assert (found.ok, found.sentence) == (True, "this relay owns 0 shard(s); 2 relay(s) share them")
    clock.now += LEASE.total_seconds() + 1
    assert ownership.finding(LEASE).ok is False


def test_a_topic_that_is_away_counts_as_long_as_somebody_publishes_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    away = TopicsAway(RelaySettings())
    away.failed("test.things", LogUnavailable("at 10.0.0.7: no route"))
    assert [found.ok for found in away.readiness()] == [False]
    clock.now += 2 * STILL_TRIED_S
    assert list(away.readiness()) == []  # its rows were released, or are another relay's now
    away.failed("test.things", LogUnavailable("at 10.0.0.7: no route"))
    away.works("test.things")
    assert list(away.readiness()) == []
