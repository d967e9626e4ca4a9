"""Each protection of the webhooks, taken out: the checker has to name what goes wrong then."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from services.payment import charge_states, charge_step, webhooks
from services.payment.charge_news import News
from services.payment.charge_states import lock_transactions, move_forward, take
from services.payment.payment_events import PaymentEvent, event_of
from surefoot.webhooks import Verified
from tests.support.evidence import removed
from tests.support.services.webhook_harness import WebhookGround, event, webhook_ground
from tests.support.waiting import eventually

CAPTURED = News("CAPTURED", "txn-1")
Story = Callable[[WebhookGround], Awaitable[set[str]]]
NO_CONDITION = "CAST(:from AS text[]) IS NOT NULL"


@pytest.fixture
async def ground(database_url: str) -> AsyncIterator[WebhookGround]:
    async with webhook_ground(database_url) as ground:
        yield ground


async def duplicates(ground: WebhookGround) -> set[str]:
    await ground.charge()
    await asyncio.gather(*(ground.post(event("captured")) for _ in range(5)))
    return await ground.violations()


async def same_id_for_two(ground: WebhookGround) -> set[str]:
    for txn in ("txn-1", "txn-2"):
        await ground.post(event("captured", txn=txn, id_="evt-1"))
    return await ground.violations()


async def same_news_under_two_ids(ground: WebhookGround) -> set[str]:
    for id_ in ("evt-1", "evt-2"):
        await ground.post(event("captured", id_=id_))
    return await ground.violations()


async def drop(ground: WebhookGround, *constraints: str) -> None:
    for constraint in constraints:
        await ground.connection.execute(f"ALTER TABLE payments.payment_events DROP CONSTRAINT {constraint}")


@pytest.mark.parametrize("story", [duplicates, same_id_for_two, same_news_under_two_ids])
async def test_with_the_markers_nothing_is_recorded_twice(ground: WebhookGround, story: Story) -> None:
    assert await story(ground) == set()


async def test_without_the_marker_of_the_event_one_event_is_recorded_twice(ground: WebhookGround) -> None:
    removed("webhook.event_marker")
    await drop(ground, "payment_events_pkey")
    assert await same_id_for_two(ground) == {"event recorded twice"}


async def test_without_the_marker_of_the_news_the_same_news_is_recorded_twice(ground: WebhookGround) -> None:
    removed("webhook.news_marker")
    await drop(ground, "payment_events_news")
    assert await same_news_under_two_ids(ground) == {"news recorded twice"}


async def test_without_either_marker_duplicates_are_recorded_but_the_update_still_tells_once(
    ground: WebhookGround,
) -> None:
    await drop(ground, "payment_events_pkey", "payment_events_news")
    assert await duplicates(ground) == {"event recorded twice", "news recorded twice"}
    assert await ground.told() == ["charge.captured"]


async def late_authorization(ground: WebhookGround) -> set[str]:
    await ground.charge()
    await ground.post(event("captured"))
    await ground.post(event("authorized"))
    return await ground.violations()


async def both_ways(ground: WebhookGround) -> set[str]:
    await ground.charge()
    await asyncio.gather(ground.post(event("captured")), ground.inline(CAPTURED))
    return await ground.violations()


@pytest.mark.parametrize("story", [late_authorization, both_ways])
async def test_with_the_condition_late_news_and_news_from_both_ways_do_no_harm(
    ground: WebhookGround, story: Story
) -> None:
    assert await story(ground) == set()


async def test_without_the_condition_late_news_moves_the_charge_backwards(
    ground: WebhookGround, monkeypatch: pytest.MonkeyPatch
) -> None:
    _take_the_condition_out(monkeypatch)
    assert await late_authorization(ground) == {"moved backwards"}


async def test_without_the_condition_a_webhook_and_the_inline_answer_tell_it_twice(
    ground: WebhookGround, monkeypatch: pytest.MonkeyPatch
) -> None:
    _take_the_condition_out(monkeypatch)
    assert await both_ways(ground) == {"told twice"}


def _take_the_condition_out(monkeypatch: pytest.MonkeyPatch) -> None:
    removed("webhook.forward_only")
    without = charge_step._MOVE.replace("charge.status = ANY(:from)", NO_CONDITION)
    assert without != charge_step._MOVE
    monkeypatch.setattr(charge_step, "_MOVE", without)


async def test_with_the_lock_the_inline_answer_waits_for_the_webhook_and_applies_it(ground: WebhookGround) -> None:
    await ground.charge(txn=None)
    async with AsyncSession(ground.engine) as first:
        async with first.begin():
            assert await take(first, _event()) == "unmatched"
            inline = asyncio.create_task(ground.inline(News("AUTHORIZED", "txn-1")))
            waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
            await eventually(lambda: ground.connection.fetchval(waiting), what="the inline answer waits")
        await inline
    assert await ground.stands() == ("CAPTURED", "txn-1", 0)
    assert await ground.violations() == set()


async def test_without_the_lock_webhook_and_inline_answer_miss_each_other(
    ground: WebhookGround, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def no_lock(session: AsyncSession, *names: str) -> None:
        return None

    removed("webhook.transaction_lock")
    monkeypatch.setattr(charge_states, "lock_transactions", no_lock)
    await ground.charge(txn=None)
    async with AsyncSession(ground.engine) as first, first.begin():
        assert await take(first, _event()) == "unmatched"
        await ground.inline(News("AUTHORIZED", "txn-1"))
    assert await ground.violations() == {"kept for ever"}


async def test_without_the_charges_lock_webhook_and_new_charge_miss_each_other(
    ground: WebhookGround, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def no_lock(session: AsyncSession, charge_id: str) -> None:
        return None

    removed("webhook.charge_lock")
    monkeypatch.setattr(charge_states, "lock_charge", no_lock)
    async with AsyncSession(ground.engine) as first, first.begin():
        assert await take(first, _event(charge="ch-1")) == "unmatched"
        await ground.charge(txn=None)
        async with AsyncSession(ground.engine) as second, second.begin():
            await charge_states.apply_kept(second, "ch-1")
    assert await ground.violations() == {"kept for ever"}


async def test_with_a_marker_that_is_committed_by_itself_a_failure_loses_the_event(
    ground: WebhookGround, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one transaction, taken apart: the resend is a duplicate, and nobody does what the first did not."""
    sessions: list[AsyncSession] = []

    async def remembered(session: AsyncSession, *names: str) -> None:
        sessions.append(session)
        await lock_transactions(session, *names)

    async def commit(name: str) -> None:
        if name == "payment_webhook.recorded":
            await sessions[-1].commit()

    await ground.charge()
    removed("webhook.one_transaction")
    with monkeypatch.context() as apart:
        apart.setattr(charge_states, "lock_transactions", remembered)
        apart.setattr(charge_states, "failpoint", commit)
        assert (await ground.post(event("captured"))).status_code == 503
    assert await ground.outcome(event("captured")) == "duplicate"
    assert await ground.violations() == {"kept for ever"}


async def test_without_the_signature_a_stranger_moves_money(
    ground: WebhookGround, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ground.charge()
    assert (await ground.post(event("captured"), {})).status_code == 400
    assert (await ground.stands())[0] == "PENDING"

    def believed(*_: Any) -> Verified:
        return Verified(None, datetime.now(UTC))

    removed("webhook.signature")
    monkeypatch.setattr(webhooks, "verify", believed)
    assert (await ground.post(event("captured"), {})).status_code == 200
    assert (await ground.stands())[0] == "CAPTURED"


async def test_whoever_waits_too_long_for_another_at_the_same_charge_is_told_to_send_again(
    ground: WebhookGround, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhooks, "_LIMITS", text("SELECT set_config('lock_timeout', '50ms', true)"))
    await ground.charge()
    async with AsyncSession(ground.engine) as other, other.begin():
        await move_forward(other, "ch-1", CAPTURED)
        assert (await ground.post(event("captured"))).status_code == 503
    assert await ground.outcome(event("captured")) == "late"
    assert await ground.violations() == set()


def _event(charge: str | None = None) -> PaymentEvent:
    found = event_of("provider", event("captured", charge=charge))
    assert isinstance(found, PaymentEvent)
    return found
