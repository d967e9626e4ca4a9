"""Charges: what became of the money that was asked for over HTTP.

Each of these is said at most once for a charge (`charge.refunded` once for each total), whether the gateway's answer or
its webhook brought the news. A later one says all that an earlier one would have: a charge whose capture was heard of
first is never announced as authorized.
"""

from typing import Annotated

from pydantic import Field

from surefoot.events import Catalogue, EventData, Money

charges = Catalogue(source="/charges")
charge_events = charges.topic("charge.events", partitions=8)

ChargeId = Annotated[str, Field(min_length=1, max_length=64)]


class ChargeNews(EventData):
    """What all of them say; `gateway_txn_id` is the gateway's own name for the charge."""

    charge_id: ChargeId
    tenant: str
    amount: Money
    gateway: str
    gateway_txn_id: str | None = None


@charges.event("charge.authorized", topic=charge_events, key="charge_id")
class ChargeAuthorized(ChargeNews):
    """The gateway will take the money when it is asked to; it has not yet."""


@charges.event("charge.captured", topic=charge_events, key="charge_id")
class ChargeCaptured(ChargeNews):
    """The gateway has taken the money."""


@charges.event("charge.declined", topic=charge_events, key="charge_id")
class ChargeDeclined(ChargeNews):
    """The gateway refused, for good: no money was taken."""

    reason: str | None = None


@charges.event("charge.refunded", topic=charge_events, key="charge_id")
class ChargeRefunded(ChargeNews):
    """Money was given back. `amount` is all that has been given back so far, `charged` what had been taken."""

    charged: Money


@charges.event("charge.voided", topic=charge_events, key="charge_id")
class ChargeVoided(ChargeNews):
    """No money was taken, and none will be."""

    reason: str | None = None
