"""The producer in use, and its replacement when it cannot be trusted any more.

An idempotent producer counts what it sends to each partition. After a batch was refused or lost, its count and the
broker's differ, and everything it sends to that partition later is refused too (aiokafka 0.14): one bad record would
take all that follow with it. So whoever fails with a producer retires it, and the next to ask gets a new one. Batches
of other partitions that are still under way on the old one may end first.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from surefoot.log.kafka.aiokafka_typed import Producer, abandon_producer, new_producer
from surefoot.log.kafka.settings import KafkaSettings


@dataclass(slots=True, eq=False)
class _Line:
    producer: Producer
    users: int = 0
    retired: bool = False


class Producers:
    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._current: _Line | None = None
        self._starting = asyncio.Lock()
        self._leaving: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def borrowed(self) -> AsyncIterator[Producer]:
        """The producer to send one batch with. If the block fails, for whatever reason, it is not used again."""
        line = self._current or await self._start()
        line.users += 1
        try:
            yield line.producer
        except BaseException:
            self._retire(line)
            raise
        finally:
            line.users -= 1
            self._let_go(line)

    async def close(self) -> None:
        if self._current is not None:
            line = self._current
            self._retire(line)
            self._let_go(line)
        while self._leaving:
            await asyncio.gather(*self._leaving)

    async def _start(self) -> _Line:
        async with self._starting:
            if self._current is None:
                producer = new_producer(self._settings)
                try:
                    await producer.start()
                except BaseException:
                    await abandon_producer(producer)
                    raise
                self._current = _Line(producer)
            return self._current

    def _retire(self, line: _Line) -> None:
        line.retired = True
        if self._current is line:
            self._current = None

    def _let_go(self, line: _Line) -> None:
        if line.retired and line.users == 0:
            task = asyncio.create_task(abandon_producer(line.producer))
            self._leaving.add(task)
            task.add_done_callback(self._leaving.discard)
