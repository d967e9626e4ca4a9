"""How much one person may ask for, and how many refused strangers are written down. In memory, bounded, per process."""

import math
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

MOST_NAMES = 10_000
"""Those not seen for longest are forgotten first: they begin again with a full bucket."""


@dataclass(slots=True)
class _Bucket:
    left: float
    looked_at: float


class Buckets:
    """A token bucket for each name: `at_once` requests, then `per_second` of them."""

    def __init__(self, per_second: float, at_once: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_second = per_second
        self._at_once = at_once
        self._clock = clock
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def take(self, name: str) -> int:
        """0 if there was one left, else after how many seconds to ask again."""
        now = self._clock()
        bucket = self._buckets.setdefault(name, _Bucket(self._at_once, now))
        self._buckets.move_to_end(name)
        if len(self._buckets) > MOST_NAMES:
            self._buckets.popitem(last=False)
        bucket.left = min(self._at_once, bucket.left + (now - bucket.looked_at) * self._per_second)
        bucket.looked_at = now
        if bucket.left < 1:
            return max(1, math.ceil((1 - bucket.left) / self._per_second))
        bucket.left -= 1
        return 0


class FewAMinute:
    """So many a minute for each name, and ten times as many for all names together: addresses are cheap."""

    def __init__(self, each: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._each = Buckets(each / 60, each, clock=clock)
        self._all = Buckets(each * 10 / 60, each * 10, clock=clock)

    def allows(self, name: str) -> bool:
        return self._each.take(name) == 0 and self._all.take("") == 0
