"""The Faust table: counts by view and minute, forgotten after an hour, with no changelog."""

import time
from pathlib import Path

import faust
import pytest

from consumers.statistics.counting import Counted
from consumers.statistics.worker import Counts

PLACED = Counted("events", "order.placed")


@pytest.fixture
def app(tmp_path: Path) -> faust.App:
    return faust.App("statistics-of-a-test", datadir=tmp_path)


@pytest.fixture
async def counts(app: faust.App) -> Counts:
    return Counts(app)


async def test_counts_are_kept_by_view_and_minute(counts: Counts) -> None:
    noon = 1_800_000_000.0
    for at_s in (noon, noon + 59.9, noon + 60):
        counts.count(PLACED, at_s)
    counts.count(Counted("sagas", "saga.stuck"), noon)
    assert {(view, window[0]): found for (view, window), found in counts.contents()} == {
        ("events", noon): {"order.placed": 2},
        ("events", noon + 60): {"order.placed": 1},
        ("sagas", noon): {"saga.stuck": 1},
    }


async def test_minutes_past_the_hour_are_forgotten_and_others_stay(counts: Counts) -> None:
    now = time.time()
    for minutes_ago in range(200):
        counts.count(PLACED, now - 60 * minutes_ago)
    await counts.table._del_old_keys()
    kept = [window[0] for (_, window), _ in counts.contents()]
    assert 60 <= len(kept) <= 62
    assert min(kept) > now - 63 * 60


async def test_a_count_costs_no_memory_beyond_its_minute(counts: Counts) -> None:
    """Faust's own tables remember each change until its window expires."""
    for _ in range(1000):
        counts.count(PLACED, 1_800_000_000.0)
    assert [len(remembered) for remembered in counts.table._partition_timestamps.values()] == [1]


async def test_it_has_no_changelog(app: faust.App, counts: Counts) -> None:
    assert app.tables.changelog_topics == set()
    assert counts.table not in app.tables.values()
