"""Return processing: a label, the parcel, a look at it, and what follows from the verdict.

Until the parcel is here, a return can be closed and its label cancelled. From the inspection on it is finished: the
goods are ours to restock, to put away or to send back, and the buyer gets what the verdict says.
"""

from datetime import timedelta

from schemas.notification import Message, NotificationSent, SendNotification
from schemas.payment import PaymentRefunded, RefundPayment
from schemas.returns import ReturnAborted, ReturnEscalated, ReturnFinished, ReturnRequested
from schemas.shipping import (
    CancelReturnLabel,
    CreateReturnLabel,
    PickupConfirmed,
    ReturnLabelCancelled,
    ReturnLabelCreated,
    ReturnLabelRefused,
    ReturnShippedBack,
    ShipBack,
)
from schemas.warehouse import (
    InspectReturn,
    Quarantine,
    Restock,
    ReturnInspected,
    StockQuarantined,
    StockRestocked,
)
from surefoot.events import Money
from surefoot.saga import Retry, Saga

MONEY_RETRY = Retry(attempts=10, longest=timedelta(minutes=30))


def create_label(wish: ReturnRequested) -> CreateReturnLabel:
    return CreateReturnLabel(order_id=wish.order_id, return_id=wish.return_id, ship_from=wish.ship_from)


def cancel_label(wish: ReturnRequested) -> CancelReturnLabel:
    return CancelReturnLabel(order_id=wish.order_id, return_id=wish.return_id)


def escalate(wish: ReturnRequested, label: ReturnLabelCreated) -> ReturnEscalated:
    return ReturnEscalated(
        return_id=wish.return_id,
        order_id=wish.order_id,
        customer_id=wish.customer_id,
        tracking_code=label.tracking_code,
    )


def inspect(wish: ReturnRequested) -> InspectReturn:
    return InspectReturn(order_id=wish.order_id, return_id=wish.return_id, lines=wish.lines)


def verdict_of(wish: ReturnRequested, inspected: ReturnInspected) -> str:
    return inspected.verdict


def when_damaged(wish: ReturnRequested) -> str:
    return wish.when_damaged


def when_rejected(wish: ReturnRequested) -> str:
    return wish.when_rejected


def refund_all(wish: ReturnRequested) -> RefundPayment:
    return RefundPayment(
        order_id=wish.order_id,
        return_id=wish.return_id,
        refund_request_id=f"return:{wish.return_id}",
        amount=wish.amount,
        reason="return_approved",
    )


def refund_half(wish: ReturnRequested) -> RefundPayment:
    return RefundPayment(
        order_id=wish.order_id,
        return_id=wish.return_id,
        refund_request_id=f"return:{wish.return_id}",
        amount=half_of(wish.amount),
        reason="return_damaged",
    )


def restock(wish: ReturnRequested) -> Restock:
    return Restock(order_id=wish.order_id, return_id=wish.return_id, lines=wish.lines)


def quarantine(wish: ReturnRequested) -> Quarantine:
    return Quarantine(order_id=wish.order_id, return_id=wish.return_id, lines=wish.lines)


def ship_back(wish: ReturnRequested) -> ShipBack:
    return ShipBack(order_id=wish.order_id, return_id=wish.return_id, lines=wish.lines, ship_to=wish.ship_from)


def tell_refunded(wish: ReturnRequested) -> SendNotification:
    return message(wish, "return_refunded")


def tell_rejected(wish: ReturnRequested) -> SendNotification:
    return message(wish, "return_rejected")


def aborted(wish: ReturnRequested) -> ReturnAborted:
    return ReturnAborted(return_id=wish.return_id, order_id=wish.order_id, customer_id=wish.customer_id)


def finished(wish: ReturnRequested) -> ReturnFinished:
    return ReturnFinished(return_id=wish.return_id, order_id=wish.order_id)


def message(wish: ReturnRequested, what: Message) -> SendNotification:
    return SendNotification(customer_id=wish.customer_id, message=what, about=wish.return_id)


def half_of(amount: Money) -> Money:
    """Rounded down to the currency's smallest unit: never more than half."""
    return Money.minor(amount.minor_units // 2, amount.currency)


return_processing = Saga("return_processing", version=1, starts_on=ReturnRequested)

return_processing.step(
    "create_label",
    do=create_label,
    done_on=ReturnLabelCreated,
    refused_on=ReturnLabelRefused,
    undo=cancel_label,
    undone_on=ReturnLabelCancelled,
)
return_processing.wait(
    "pickup", until=PickupConfirmed, entity="return_id", deadline=timedelta(days=5), when_late="escalate", tell=escalate
)
return_processing.pivot("inspect", do=inspect, done_on=ReturnInspected)
verdict = return_processing.branch("verdict", by=verdict_of)

approved = verdict.path("APPROVED")
approved.step("refund", do=refund_all, done_on=PaymentRefunded, retry=MONEY_RETRY)
approved.step("tell_refunded", do=tell_refunded, done_on=NotificationSent)
approved.step("restock", do=restock, done_on=StockRestocked)

damaged = verdict.path("DAMAGED")
policy = damaged.branch("damage_policy", by=when_damaged)
refunded = policy.path("refund_half")
refunded.step("refund_half", do=refund_half, done_on=PaymentRefunded, retry=MONEY_RETRY)
refunded.step("tell_refunded_half", do=tell_refunded, done_on=NotificationSent)
policy.path("no_refund").step("tell_not_refunded", do=tell_rejected, done_on=NotificationSent)
damaged.step("quarantine", do=quarantine, done_on=StockQuarantined)

rejected = verdict.path("REJECTED")
rejected.step("tell_rejected", do=tell_rejected, done_on=NotificationSent)
parcel = rejected.branch("reject_policy", by=when_rejected)
parcel.path("ship_back").step("ship_back", do=ship_back, done_on=ReturnShippedBack)
parcel.path("keep")

return_processing.tell("FAILED", aborted)
return_processing.tell("COMPENSATED", aborted)
return_processing.tell("COMPLETED", finished)
