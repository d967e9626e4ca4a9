"""Webhooks in the books: each event once, applied to its charge, or kept until its charge appears.

The marker, the step of the charge and the outbox row are one transaction: either all of them are there, or the
gateway's resend finds none of them and does it all again.
"""

from collections.abc import Mapping
from typing import Any, Literal, assert_never

import structlog
from sqlalchemy import Row, text
from sqlalchemy.ext.asyncio import AsyncSession

from services.payment.charge_locks import lock_charge, lock_transactions
from services.payment.charge_news import Contradicted, Late, Moved, News
from services.payment.charge_step import After, Publish, step
from services.payment.metrics import CONTRADICTIONS
from services.payment.payment_events import KINDS, PaymentEvent
from surefoot.events import Money
from surefoot.failpoints import failpoint

log = structlog.get_logger("surefoot.payment_events")
Outcome = Literal["applied", "late", "contradicted", "unmatched", "duplicate"]
Verdict = Moved | Late | Contradicted

# Without naming a constraint: the same event again, or the same news under another id, are both nothing new.
_RECORD = """
    INSERT INTO payments.payment_events
        (gateway, event_id, gateway_txn_id, kind, charge_id, amount, currency, given_back, state, reason, happened_at)
    VALUES (:gateway, :event_id, :txn, :kind, :charge_id, :amount, :currency, :given_back, 'UNMATCHED', :reason,
            :happened_at)
    ON CONFLICT DO NOTHING
    RETURNING event_id
"""
_SETTLE = text("""
    UPDATE payments.payment_events
    SET state = :state, note = :note, charge_id = coalesce(:charge_id, charge_id), settled_at = now()
    WHERE gateway = :gateway AND event_id = :event_id
""")
_CHARGES = text("""
    SELECT charge_id FROM payments.charges
    WHERE gateway = :gateway AND (gateway_txn_id = :txn OR charge_id = :charge_id)
""")
_KEPT = text("""
    SELECT event.* FROM payments.charges AS charge
    JOIN payments.payment_events AS event
      ON event.charge_id = charge.charge_id OR event.gateway_txn_id = charge.gateway_txn_id
    WHERE charge.charge_id = :charge_id AND event.gateway = charge.gateway AND event.state = 'UNMATCHED'
    ORDER BY event.happened_at, event.received_at, event.event_id
""")


async def take(
    session: AsyncSession, event: PaymentEvent, *, publish: Publish | None = None, after: After | None = None
) -> Outcome:
    """A verified event, in the caller's transaction."""
    if event.charge_id is not None:
        await lock_charge(session, event.charge_id)
    await lock_transactions(session, event.gateway_txn_id)
    if (await session.execute(text(_RECORD), _columns(event))).one_or_none() is None:
        return "duplicate"
    await failpoint("payment_webhook.recorded")
    found = await session.execute(_CHARGES, _columns(event))
    charges = [str(charge_id) for charge_id in found.scalars()]
    if not charges:
        return "unmatched"
    if len(charges) > 1:
        verdict: Verdict = Contradicted(
            f"Transaction {event.gateway_txn_id} is another charge's than {event.charge_id}, which the gateway says."
        )
    else:
        verdict = await step(session, charges[0], event.news, publish=publish, after=after)
    outcome = await _settle(session, event.gateway, event.event_id, event.charge_id or charges[0], verdict)
    if event.charge_id is not None and not isinstance(verdict, Contradicted):
        # It may be the first to say which transaction the charge is, and others of that transaction be waiting.
        await settle_kept(session, event.charge_id, publish=publish, after=after)
    await failpoint("payment_webhook.settled")
    return outcome


async def apply_kept(
    session: AsyncSession, charge_id: str, *, publish: Publish | None = None, after: After | None = None
) -> None:
    """Whatever the gateway said of this charge before it was written down: call this in that same transaction."""
    await lock_charge(session, charge_id)
    kept = (await session.execute(_KEPT, {"charge_id": charge_id})).all()
    if kept:
        await lock_transactions(session, *(row.gateway_txn_id for row in kept))
        await settle_kept(session, charge_id, publish=publish, after=after)


async def settle_kept(
    session: AsyncSession, charge_id: str, *, publish: Publish | None = None, after: After | None = None
) -> None:
    """The caller holds the locks. In rounds, because one may say which transaction it is that others wait for."""
    while kept := (await session.execute(_KEPT, {"charge_id": charge_id})).all():
        for row in kept:
            verdict = await step(session, charge_id, _news(row), publish=publish, after=after)
            await _settle(session, row.gateway, row.event_id, charge_id, verdict)


async def _settle(session: AsyncSession, gateway: str, event_id: str, charge_id: str, verdict: Verdict) -> Outcome:
    note: str | None = None
    match verdict:
        case Moved():
            outcome: Outcome = "applied"
        case Late():
            outcome = "late"
        case Contradicted():
            outcome, note = "contradicted", verdict.sentence
            CONTRADICTIONS.labels("webhook").inc()
            log.error("a webhook contradicts the books", gateway=gateway, event_id=event_id, sentence=note)
        case _:
            assert_never(verdict)
    given = {"gateway": gateway, "event_id": event_id, "state": outcome.upper(), "note": note, "charge_id": charge_id}
    await session.execute(_SETTLE, given)
    return outcome


def _columns(event: PaymentEvent) -> Mapping[str, Any]:
    return {
        "gateway": event.gateway,
        "event_id": event.event_id,
        "txn": event.gateway_txn_id,
        "kind": event.kind,
        "charge_id": event.charge_id,
        "amount": event.amount.minor_units,
        "currency": event.amount.currency,
        "given_back": event.amount.minor_units if event.news.to == "REFUNDED" else 0,
        "reason": event.news.reason,
        "happened_at": event.happened_at,
    }


def _news(row: Row[Any]) -> News:
    return News(KINDS[row.kind], row.gateway_txn_id, Money.minor(row.amount, row.currency), row.reason)
