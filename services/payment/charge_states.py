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
"""

from sqlalchemy.ext.asyncio import AsyncSession

from services.payment.charge_locks import lock_charge, lock_transactions
from services.payment.charge_news import Contradicted, Known, Late, Moved, News
from services.payment.charge_step import After, Publish, step
from services.payment.payment_events_book import apply_kept, settle_kept

__all__ = ["After", "Contradicted", "Known", "Late", "Moved", "News", "Publish", "apply_kept", "move_forward"]


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
