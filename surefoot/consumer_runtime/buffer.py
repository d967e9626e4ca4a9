"""How much is read and taken at a time. A buffer holds the records of one partition between the poll and the batch, and
is bounded: a full one asks for no more.

A transaction takes as many records as can be worked off in half a second. It begins with one and doubles while batches
are quick. A batch of slow handlers would otherwise hold its locks, and its events back, for minutes; and when
partitions move more often than a batch takes, its work would be undone each time.
"""

from collections import deque
from collections.abc import Iterable, Sequence

from surefoot.consumer_runtime.settings import ConsumerSettings
from surefoot.log.port import StoredRecord


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


FIRST_POLL = 100


class Buffer:
    def __init__(self, settings: ConsumerSettings, *, expected: int) -> None:
        self._settings = settings
        self._records: deque[tuple[StoredRecord, int]] = deque()
        self._bytes = 0
        self.expected = expected
        """The offset that comes next; a higher one may mean that records are gone."""

    def __len__(self) -> int:
        return len(self._records)

    @property
    def is_full(self) -> bool:
        return len(self._records) >= self._settings.buffer_records or self._bytes >= self._settings.buffer_bytes

    @property
    def has_room(self) -> bool:
        """Emptied far enough to ask for more; not the moment it is no longer full, or it would go back and forth."""
        return len(self._records) * 2 < self._settings.buffer_records and self._bytes * 2 < self._settings.buffer_bytes

    def put(self, records: Sequence[StoredRecord]) -> None:
        for record in records:
            if record.offset >= self.expected:
                size = _size(record)
                self._records.append((record, size))
                self._bytes += size
                self.expected = record.offset + 1

    def take(self, at_most: int) -> list[StoredRecord]:
        """The next batch: so many records, or so many bytes, and at least one if there is any."""
        batch: list[StoredRecord] = []
        taken = 0
        while self._records and len(batch) < at_most:
            record, size = self._records[0]
            if batch and taken + size > self._settings.batch_bytes:
                break
            self._records.popleft()
            batch.append(record)
            taken += size
        self._bytes -= taken
        return batch


def _size(record: StoredRecord) -> int:
    headers = sum([len(name) + len(value or b"") for name, value in record.headers])
    return len(record.value or b"") + len(record.key or b"") + headers


class PollSize:
    """How many records to ask for at once: many small ones, few large ones."""

    def __init__(self, settings: ConsumerSettings) -> None:
        self._settings = settings
        self.records = min(FIRST_POLL, settings.buffer_records)

    def learn(self, found: Iterable[Sequence[StoredRecord]]) -> None:
        sizes = [len(record.value or b"") for records in found for record in records]
        if sizes:
            average = max(1, sum(sizes) // len(sizes))
            wanted = min(self._settings.buffer_records, self._settings.buffer_bytes // average)
            # Small ones say little of the next: thousands of large ones may come right behind them.
            self.records = max(1, min(wanted, self.records * 2))
