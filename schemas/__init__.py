"""The platform's contracts: events and commands of orders, payments, charges, warehouse, shipping, returns and
notifications, what the platform itself says, and the topics they are on.

`catalogue` has them all. Their JSON Schemas are exported to `schemas/json` and kept under version control;
`surefoot schemas check` refuses a change that would break a reader.
"""

from schemas.charge import charges
from schemas.notification import notifications
from schemas.order import orders
from schemas.payment import payments
from schemas.returns import returns
from schemas.shipping import shipping
from schemas.warehouse import warehouse
from surefoot.consumer.contracts import platform
from surefoot.events import Catalogue

__all__ = ["catalogue", "charges", "notifications", "orders", "payments", "returns", "shipping", "warehouse"]

catalogue = Catalogue(source="/")
for _domain in (orders, payments, charges, warehouse, shipping, returns, notifications, platform):
    catalogue.include(_domain)
