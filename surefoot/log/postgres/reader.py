"""Reading the Postgres log without joining a group: for tailing, checking and counting. Commits nothing."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from datetime import timedelta

from surefoot.log.port import StoredRecord, TopicPartition
from surefoot.log.postgres.line import Line
from surefoot.log.postgres.records import RecordsGone, read_records, read_statement

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.002, 0.1


class PostgresReader:
    def __init__(self, url: str, schema: str, offsets: Mapping[TopicPartition, int]) -> None:
        self._line = Line(url, name="surefoot log reader")
        self._statement = read_statement(schema)
        self._positions = dict(offsets)

    async def poll(
        self, *, max_records: int = 500, timeout: timedelta = timedelta(seconds=1)
    ) -> Mapping[TopicPartition, Sequence[StoredRecord]]:
        deadline, pause_s = time.monotonic() + timeout.total_seconds(), FIRST_PAUSE_S
        while True:
            found = await self._read(max_records)
            left_s = deadline - time.monotonic()
            if found or left_s <= 0:
                return found
            await asyncio.sleep(min(pause_s, left_s))
            pause_s = min(pause_s * 2, LONGEST_PAUSE_S)

    async def close(self) -> None:
        await self._line.close()

    async def _read(self, max_records: int) -> Mapping[TopicPartition, Sequence[StoredRecord]]:
        async with self._line.use() as connection:
            while True:
                try:
                    found = await read_records(connection, self._statement, self._positions, max_records)
                    break
                except RecordsGone as gone:
                    self._positions[gone.where] = gone.first  # nobody's duty is to read all: on from the oldest kept
        for where, records in found.items():
            self._positions[where] = records[-1].offset + 1
        # The next call begins with another partition, so that a busy one does not starve the others.
        if self._positions:
            first = next(iter(self._positions))
            self._positions[first] = self._positions.pop(first)
        return found
