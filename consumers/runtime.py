"""Several reference services in one process: their consumers, and what runs beside. If one fails, all of it ends."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

from consumers.roster import CONSUMERS, beside
from services.settings import Service, ServiceSettings
from surefoot.consumer_runtime.runtime import ConsumerRuntime
from surefoot.consumer_runtime.settings import ConsumerSettings
from surefoot.log.port import EventLog


class ServicesRuntime:
    def __init__(
        self,
        services: Sequence[Service],
        settings: ServiceSettings,
        log: EventLog,
        reading: ConsumerSettings,
    ) -> None:
        self._stopping = asyncio.Event()
        self._consumers = [
            ConsumerRuntime(consumer, settings.database_of(service), log, reading)
            for service in services
            for consumer in CONSUMERS[service]
        ]
        self._beside = [work for service in services for work in beside(service, settings)]

    @property
    def names(self) -> list[str]:
        return [consumer.name for consumer in self._consumers]

    def stop(self) -> None:
        self._stopping.set()
        for consumer in self._consumers:
            consumer.stop()

    async def run(self) -> None:
        work: list[Coroutine[Any, Any, None]] = [consumer.run() for consumer in self._consumers]
        tasks = [asyncio.create_task(one) for one in [*work, *(each(self._stopping) for each in self._beside)]]
        for task in tasks:
            task.add_done_callback(lambda _: self.stop())
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        for one in ended:
            if isinstance(one, BaseException):
                raise one
