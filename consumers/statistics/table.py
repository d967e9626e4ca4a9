"""The Faust table that the counts are in: windows of a minute, gone after an hour, in memory alone.

Faust writes every change of a table to a topic of its own, the changelog. This table has none: a record to Kafka for
each one counted would double the broker's work, all topics would need the same number of partitions, and what is read
back from a changelog never expires (Faust 0.15). The topics themselves are changelog enough: see `starting_point`.
"""

from collections.abc import Iterator
from typing import Any, cast

import faust

from consumers.statistics import KEPT
from consumers.statistics.answers import Window
from consumers.statistics.counting import MINUTE, Counted, View, add

_PARTITION = 0
"""Faust keeps what is to expire by partition. There is but one worker of a group, so one is enough."""


class Unlogged(faust.Table):  # type: ignore[type-arg]
    """A table without a changelog. It is not registered with the app, so nothing is assigned or recovered for it."""

    async def on_start(self) -> None:
        await self.add_runtime_dependency(self.data)

    def on_key_set(self, key: Any, value: Any) -> None:
        # Only the first time: Faust would remember each change of a window until the window expires.
        if key not in self.data:
            self._maybe_set_key_ttl(key, _PARTITION)

    def on_key_del(self, key: Any) -> None:
        self._maybe_del_key_ttl(key, _PARTITION)


class Counts:
    """How often each name was seen, by view and minute."""

    def __init__(self, app: faust.App) -> None:
        self._window = faust.TumblingWindow(MINUTE, expires=KEPT)
        self.table = Unlogged(app, name="statistics", default=dict, store="memory://", window=self._window)

    def count(self, what: Counted, at_s: float) -> None:
        key = (what.view, self._window.current(at_s))
        counts = self.table[key]
        add(counts, what.name)
        self.table[key] = counts

    def contents(self) -> Iterator[tuple[tuple[View, Window], dict[str, int]]]:
        return cast(Iterator[tuple[tuple[View, Window], dict[str, int]]], iter(self.table.items()))
