"""How many records a transaction takes: as many as can be worked off in half a second. Pure.

It begins with one and doubles while batches are quick. A batch of slow handlers would otherwise hold its locks, and its
events back, for minutes; and when partitions move more often than a batch takes, its work would be undone each time.
"""

from surefoot.consumer_runtime.settings import ConsumerSettings


class BatchSize:
    def __init__(self, settings: ConsumerSettings) -> None:
        self._most = settings.batch_records
        self._target_s = settings.batch_time.total_seconds()
        self.records = min(settings.batch_first, self._most)

    def learn(self, count: int, took_s: float) -> None:
        """So many records took so long."""
        if took_s > self._target_s:
            self.records = max(1, min(self.records, int(count * self._target_s / took_s)))
        elif count >= self.records and took_s < self._target_s / 2:
            self.records = min(self._most, count * 2)
