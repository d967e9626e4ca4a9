"""Charges move forward, whoever brings the news: the gateway's inline answer, its webhook, or one that was kept.

    await begin(session, charge)                                    # in the phase that writes the charge down
    await apply_kept(session, charge.charge_id)

    news = News("CAPTURED", gateway_txn_id=answer.charge_id)        # in the phase that has the gateway's answer
    match await move_forward(session, charge_id, news):
        case Moved(charge): …                                       # by us, and told; it tells it once
        case Late(charge): …                                        # a webhook was faster: it has told it
        case Contradicted(sentence): …                              # for people: nothing was changed

For a refund, the news is of all that has been given back so far: `News("REFUNDED", amount=total)`. What else belongs to
a step (entries in a ledger) goes into `after`, which both ways in are given: who makes the step is a matter of luck.

Webhooks are kept in the books as well (`take`): each event once, applied to its charge, or kept until its charge
appears. The marker, the step of the charge and the outbox row are one transaction: either all of them are there, or the
gateway's resend finds none of them and does it all again.
"""

import hashlib
from collections.abc import Mapping
from typing import Any, Literal, assert_never

import structlog
from prometheus_client import Counter
from sqlalchemy import Row, text
from sqlalchemy.ext.asyncio import AsyncSession

from services.payment.charge_news import Contradicted, Late, Moved, News
from services.payment.charge_step import After, Publish, step
from services.payment.payment_events import KINDS, PaymentEvent
from surefoot.events import Money
from surefoot.failpoints import failpoint

log = structlog.get_logger("surefoot.payment_events")
Outcome = Literal["applied", "late", "contradicted", "unmatched", "duplicate"]
Verdict = Moved | Late | Contradicted
CONTRADICTIONS = Counter(
    "surefoot_payment_contradictions_total",
    "News of a charge that cannot be true beside the books: in a webhook, also one that was kept, or in an answer.",
    ["source"],
)
for _source in ("webhook", "answer"):
    CONTRADICTIONS.labels(_source)  # from the start, at 0: a rule watches it
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
# Without them a webhook finds no charge of its transaction, and is kept, while the inline answer that names the
# transaction looks for kept ones, and sees none: each in time to miss the other, and the news would lie there for ever.
# Everybody takes them in one order, or two would wait for each other: the charge first, then transactions by number;
# and both before any row of the charge is locked.
_CHARGE, _TRANSACTION = 1937076871, 1937076872
"""What the other number stands for. Two names may have the same: they take turns then, and no harm is done."""
_LOCK = text("SELECT pg_advisory_xact_lock(:of, name) FROM unnest(CAST(:names AS int[])) AS name")


async def move_forward(
    session: AsyncSession, charge_id: str, news: News, *, publish: Publish | None = None, after: After | None = None
) -> Moved | Late | Contradicted:
    """What the gateway answered, in the caller's transaction. Where the news names the gateway's transaction, locks of
    that name and of the charge's are taken: call this before you lock the charge's row. `publish`: another way to the
    outbox than the session's own."""
    if news.gateway_txn_id is None:
        return await step(session, charge_id, news, publish=publish, after=after)
    await lock_charge(session, charge_id)
    await lock_transactions(session, news.gateway_txn_id)
    found = await step(session, charge_id, news, publish=publish, after=after)
    if not isinstance(found, Contradicted):
        await settle_kept(session, charge_id, publish=publish, after=after)
    return found


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


async def lock_charge(session: AsyncSession, charge_id: str) -> None:
    """One at a time for a charge, until the database transaction ends."""
    await session.execute(_LOCK, {"of": _CHARGE, "names": [_number(charge_id)]})


async def lock_transactions(session: AsyncSession, *gateway_txn_ids: str) -> None:
    """The same for the gateway's transactions."""
    await session.execute(_LOCK, {"of": _TRANSACTION, "names": sorted({_number(name) for name in gateway_txn_ids})})


def _number(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=4).digest(), "big", signed=True)


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
