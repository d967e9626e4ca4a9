"""The demo's tailing reader: reads every topic as it is written, shows some of it, and remembers all of it."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta

from surefoot.events import decode
from surefoot.log.port import EventLog, StoredRecord
from surefoot.testing.checkers import Seen

POLL = timedelta(milliseconds=200)


class Watch:
    def __init__(self, show: Callable[[StoredRecord], None]) -> None:
        self.seen: list[Seen] = []
        self.distinct: set[str] = set()
        self._show = show

    async def follow(self, log: EventLog, topics: Sequence[str]) -> None:
        """Read until cancelled."""
        async with asyncio.TaskGroup() as group:
            for topic in topics:
                group.create_task(self._follow(log, topic))

    async def _follow(self, log: EventLog, topic: str) -> None:
        reader = await log.read(topic, dict.fromkeys(await log.end_offsets(topic), 0))
        try:
            while True:
                for batch in (await reader.poll(timeout=POLL)).values():
                    for record in batch:
                        self._take(record)
        finally:
            await reader.close()

    def _take(self, record: StoredRecord) -> None:
        attributes = decode(record.headers, record.value, record.key).attributes
        key = f"{record.topic}/{attributes['partitionkey']}"
        self.seen.append(Seen(attributes["id"], key, record.partition, record.offset))
        self.distinct.add(attributes["id"])
        self._show(record)
