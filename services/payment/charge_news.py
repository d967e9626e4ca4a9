"""What can be said of a charge, and what it makes of the charge. Pure.

States only move forward: PENDING, AUTHORIZED, CAPTURED, REFUNDED. DECLINED and VOIDED end it. News that comes late,
because a later one was faster, is no fault; news that cannot be true beside what is known already is for people.
"""

from dataclasses import dataclass
from typing import Any, Literal

from schemas.charge import ChargeAuthorized, ChargeCaptured, ChargeDeclined, ChargeNews, ChargeRefunded, ChargeVoided
from surefoot.events import Money

Status = Literal["PENDING", "AUTHORIZED", "CAPTURED", "DECLINED", "VOIDED", "REFUNDED"]
NewStatus = Literal["AUTHORIZED", "CAPTURED", "DECLINED", "VOIDED", "REFUNDED"]

FROM: dict[NewStatus, tuple[Status, ...]] = {
    "AUTHORIZED": ("PENDING",),
    "CAPTURED": ("PENDING", "AUTHORIZED"),
    "REFUNDED": ("PENDING", "AUTHORIZED", "CAPTURED"),
    "DECLINED": ("PENDING", "AUTHORIZED"),
    "VOIDED": ("PENDING", "AUTHORIZED"),
}
"""Out of which states each is a step forward."""
TAKEN = ("CAPTURED", "REFUNDED")
ENDED = ("DECLINED", "VOIDED")


@dataclass(frozen=True, slots=True)
class News:
    """What the gateway says, in its answer or in a webhook."""

    to: NewStatus
    gateway_txn_id: str | None = None
    amount: Money | None = None
    """What is charged, or for REFUNDED all that has been given back so far; None: as much as the charge is."""
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Known:
    """A charge as it stands."""

    charge_id: str
    tenant: str
    amount: Money
    refunded: Money
    status: Status
    gateway: str
    gateway_txn_id: str | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class Moved:
    """The charge is further than before, by this news; whoever gets this has told it."""

    charge: Known
    news: News


@dataclass(frozen=True, slots=True)
class Late:
    """The charge was as far already: nothing was changed, and nothing told."""

    charge: Known


@dataclass(frozen=True, slots=True)
class Contradicted:
    """It cannot be true beside what is known: nothing was changed, and somebody has to look."""

    sentence: str


def unmoved(charge: Known, news: News) -> Late | Contradicted:
    """Why the news did not move the charge."""
    if news.gateway_txn_id is not None and charge.gateway_txn_id not in (None, news.gateway_txn_id):
        return Contradicted(
            f"Charge {charge.charge_id} is transaction {charge.gateway_txn_id} of the gateway, and this one is of "
            f"transaction {news.gateway_txn_id}: it may have been charged twice."
        )
    if not _amount_fits(charge.amount, news):
        return Contradicted(
            f"Charge {charge.charge_id} is of {charge.amount}, and the gateway speaks of {news.amount}."
        )
    if (charge.status in ENDED and news.to in TAKEN) or (charge.status in TAKEN and news.to in ENDED):
        return Contradicted(f"Charge {charge.charge_id} is {charge.status}, and the gateway says {news.to}.")
    if is_step(charge, news):
        return Contradicted(
            f"Charge {charge.charge_id} cannot be transaction {news.gateway_txn_id} of the gateway: another charge is."
        )
    return Late(charge)


def is_step(charge: Known, news: News) -> bool:
    """Whether the news, if it is true, brings the charge further. A refund may come in parts: each is a step."""
    if news.to == "REFUNDED" and charge.refunded >= (news.amount or charge.amount):
        return False
    return charge.status in FROM[news.to]


def told(moved: Moved) -> ChargeNews:
    """The event that says it."""
    charge = moved.charge
    said: dict[str, Any] = {
        "charge_id": charge.charge_id,
        "tenant": charge.tenant,
        "gateway": charge.gateway,
        "gateway_txn_id": charge.gateway_txn_id,
    }
    match moved.news.to:
        case "AUTHORIZED":
            return ChargeAuthorized(amount=charge.amount, **said)
        case "CAPTURED":
            return ChargeCaptured(amount=charge.amount, **said)
        case "DECLINED":
            return ChargeDeclined(amount=charge.amount, reason=charge.reason, **said)
        case "VOIDED":
            return ChargeVoided(amount=charge.amount, reason=charge.reason, **said)
        case "REFUNDED":
            return ChargeRefunded(amount=charge.refunded, charged=charge.amount, **said)


def _amount_fits(charged: Money, news: News) -> bool:
    if news.amount is None or news.amount.currency != charged.currency:
        return news.amount is None
    return news.amount == charged or (news.to == "REFUNDED" and news.amount <= charged)
