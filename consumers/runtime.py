"""Which consumers each service runs, what runs beside them, and several services in one process.

If one of them fails, all of it ends.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from consumers.checkout import checkout
from consumers.flow import flow
from consumers.notification import notification
from consumers.order import order, order_choreography
from consumers.payment import payment, payment_choreography
from consumers.returns import returns
from consumers.shipping import shipping
from consumers.warehouse import warehouse, warehouse_choreography
from services.settings import Service, ServiceSettings
from services.warehouse.expiry import keep_expiring
from surefoot.consumer import Consumer
from surefoot.consumer_runtime.runtime import ConsumerRuntime
from surefoot.consumer_runtime.settings import ConsumerSettings
from surefoot.log.port import EventLog

Beside = Callable[[asyncio.Event], Coroutine[Any, Any, None]]
CONSUMERS: Mapping[Service, Sequence[Consumer]] = {
    "checkout": [checkout],
    "order": [order, order_choreography],
    "payment": [payment, payment_choreography],
    "warehouse": [warehouse, warehouse_choreography],
    "shipping": [shipping],
    "returns": [returns],
    "notification": [notification],
    "flow": [flow],
}
"""The provider is a process of its own, the ledger is a library: they consume nothing."""


def beside(service: Service, settings: ServiceSettings) -> Sequence[Beside]:
    """What runs as long as the service's consumers do."""
    if service != "warehouse":
        return []
    url = settings.database_of("warehouse")
    return [lambda stopping: keep_expiring(url, stopping)]


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
