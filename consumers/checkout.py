"""Checkout learns what the warehouse keeps for its sessions."""

from schemas.warehouse import StockHeld, StockHoldExpired, StockHoldRejected
from services.checkout import sessions
from surefoot.consumer import Consumer, Transaction
from surefoot.events import Event

checkout = Consumer("checkout")


@checkout.on(StockHeld)
async def is_held(event: Event[StockHeld], tx: Transaction) -> None:
    await sessions.become_held(tx.session, event.data.checkout_session_id, event.data.expires_at)


@checkout.on(StockHoldRejected)
async def is_rejected(event: Event[StockHoldRejected], tx: Transaction) -> None:
    missing = ", ".join(event.data.missing)
    reason = event.data.reason + (f": {missing}" if missing else "")
    await sessions.become_rejected(tx.session, event.data.checkout_session_id, reason)


@checkout.on(StockHoldExpired)
async def is_expired(event: Event[StockHoldExpired], tx: Transaction) -> None:
    await sessions.become_expired(tx.session, event.data.checkout_session_id)
