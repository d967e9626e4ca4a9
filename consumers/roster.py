"""Which consumers each reference service runs, and what runs beside them."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from consumers.checkout import checkout
from consumers.flow import flow
from consumers.notification import notification
from consumers.order import order
from consumers.order_choreography import order_choreography
from consumers.payment import payment
from consumers.payment_choreography import payment_choreography
from consumers.returns import returns
from consumers.shipping import shipping
from consumers.warehouse import warehouse
from consumers.warehouse_choreography import warehouse_choreography
from services.settings import Service, ServiceSettings
from services.warehouse.expiry import keep_expiring
from surefoot.consumer import Consumer

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
    return [lambda stopping: keep_expiring(url, stopping, interval=settings.warehouse_expiry_interval)]
