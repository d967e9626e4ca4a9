"""The platform's contracts: the events of orders, payments, warehouse and shipping, what the platform itself says, and
the topics they are on.

`catalogue` has them all. Their JSON Schemas are exported to `schemas/json` and kept under version control;
`surefoot schemas check` refuses a change that would break a reader.
"""

from schemas.order import orders
from schemas.payment import payments
from schemas.shipping import shipping
from schemas.warehouse import warehouse
from surefoot.consumer.contracts import platform
from surefoot.events import Catalogue

__all__ = ["catalogue", "orders", "payments", "shipping", "warehouse"]

catalogue = Catalogue(source="/")
for _domain in (orders, payments, warehouse, shipping, platform):
    catalogue.include(_domain)
