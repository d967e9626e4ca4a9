"""Charges over HTTP and the webhooks of the same charges: whoever is first, the charge stands as the gateway says."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import pytest
from prometheus_client import REGISTRY
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine

from services.payment.api import charges
from services.payment.api.bookkeeping import book
from services.payment.api.books import NewCharge
from services.payment.charge_states import Outcome, apply_kept, take
from services.payment.payment_events import PaymentEvent, event_of
from surefoot.database.address import sqlalchemy_url
from surefoot.events import Money
from surefoot.idempotency import Store
from tests.support.evidence import removed
from tests.support.services.payment_api_harness import Api, api_ground, new_key, settings
from tests.support.services.webhook_harness import event
from tests.support.waiting import eventually

WAITS = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"


@pytest.fixture
async def api(database_url: str, tmp_path: Path) -> AsyncIterator[Api]:
    async with api_ground(database_url, tmp_path) as api:
        yield api


@pytest.fixture
async def engine(database_url: str) -> AsyncIterator[AsyncEngine]:
    engine = create_async_engine(sqlalchemy_url(database_url))
    yield engine
    await engine.dispose()


async def webhook(engine: AsyncEngine, body: bytes) -> Outcome:
    """As the door hands it on, when its signature is good."""
    said = event_of("provider", body)
    assert isinstance(said, PaymentEvent)
    async with AsyncSession(engine) as session, session.begin():
        return await take(session, said, after=book)


def counted(source: str) -> float:
    return REGISTRY.get_sample_value("surefoot_payment_contradictions_total", {"source": source}) or 0


async def test_what_a_webhook_said_of_a_charge_before_it_was_written_down_is_applied_with_it(
    api: Api, engine: AsyncEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(charges, "new_charge_id", lambda: "ch_early")
    assert await webhook(engine, event("captured", txn="txn-9", charge="ch_early")) == "unmatched"
    await api.provider.kill()  # so that nothing but the webhook can have moved it

    assert (await api.charge(key=new_key())).status_code == 503

    shown = (await api.get("/v1/charges/ch_early")).json()
    assert (shown["status"], shown["gateway_txn_id"]) == ("CAPTURED", "txn-9")
    assert await api.balance() == 2000
    assert await api.told() == ["charge.captured"]
    assert await api.connection.fetchval("SELECT state FROM payments.payment_events") == "APPLIED"


async def test_an_answer_that_contradicts_what_a_webhook_said_is_counted_and_changes_nothing(
    api: Api, engine: AsyncEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(charges, "new_charge_id", lambda: "ch_early")
    await webhook(engine, event("captured", txn="txn-9", charge="ch_early"))
    before = counted("answer")

    answer = await api.charge()  # the provider has another name for it

    assert (answer.status_code, answer.json()["gateway_txn_id"]) == (201, "txn-9")
    assert counted("answer") == before + 1
    assert await api.told() == ["charge.captured"]


@pytest.mark.parametrize("looks_for_kept", [True, False])
async def test_a_webhook_that_comes_while_its_charge_is_written_down_waits_for_it(
    api: Api, engine: AsyncEngine, monkeypatch: pytest.MonkeyPatch, looks_for_kept: bool
) -> None:
    """Without the look for kept ones nobody would hold the charge's lock: each would miss the other."""
    if not looks_for_kept:
        removed("webhook.kept_events")
        monkeypatch.setattr(charges, apply_kept.__name__, _look_for_nothing)
    charge = NewCharge(
        charge_id="ch_now",
        tenant="acme",
        amount=Money.minor(2000, "EUR"),
        description=None,
        gateway="provider",
        provider_key=uuid4().hex,
        created_at=datetime.now(UTC),
    )
    async with Store(api.url, settings(), pool_size=2) as store:
        unclaimed = await store.unclaimed()
        try:
            await charges.write_down(unclaimed.tx, charge)
            coming = asyncio.create_task(webhook(engine, event("captured", txn="txn-9", charge="ch_now")))

            async def waits_or_is_done() -> bool:
                return coming.done() or bool(await api.connection.fetchval(WAITS))

            await eventually(waits_or_is_done, what="the webhook waits for the charge, or has not found it")
            await unclaimed.commit()
        finally:
            await unclaimed.release()
        outcome = await coming
    status = await api.connection.fetchval("SELECT status FROM payments.charges")
    assert (outcome, status) == (("applied", "CAPTURED") if looks_for_kept else ("unmatched", "PENDING"))


async def _look_for_nothing(*_: object, **__: object) -> None:
    """As if charges were written down without it."""
