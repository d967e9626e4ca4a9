"""Which consumers each service runs, what runs beside them, and several services in one process.

If one of them fails, all of it ends.
"""

from collections.abc import Mapping, Sequence

from consumers.checkout import checkout
from consumers.flow import flow
from consumers.notification import notification
from consumers.order import order, order_choreography
from consumers.payment import payment, payment_choreography
from consumers.returns import returns
from consumers.shipping import shipping
from consumers.warehouse import warehouse, warehouse_choreography
from services.settings import Service, ServiceSettings
from services.warehouse.expiry import Expiry
from surefoot.consumer import Consumer
from surefoot.consumer_runtime.runtime import ConsumerRuntime
from surefoot.consumer_runtime.settings import ConsumerSettings
from surefoot.log.port import EventLog
from surefoot.service import Together

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


def beside(service: Service, settings: ServiceSettings) -> list[Expiry]:
    """What runs as long as the service's consumers do."""
    if service != "warehouse":
        return []
    return [Expiry(settings.database_of("warehouse"))]


class ServicesRuntime(Together):
    def __init__(
        self,
        services: Sequence[Service],
        settings: ServiceSettings,
        log: EventLog,
        reading: ConsumerSettings,
    ) -> None:
        consumers = [
            ConsumerRuntime(consumer, settings.database_of(service), log, reading)
            for service in services
            for consumer in CONSUMERS[service]
        ]
        self.names = [consumer.name for consumer in consumers]
        super().__init__(*consumers, *(work for service in services for work in beside(service, settings)))
