"""The gateway's webhooks: each takes effect once, in whatever order they come, and none is lost."""

import asyncio
import itertools
import json
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncSession

from schemas.charge import ChargeNews
from services.payment.charge_news import Contradicted, Late, Moved, News
from services.payment.charge_states import apply_kept, move_forward
from surefoot import failpoints
from surefoot.errors import SurefootError
from surefoot.events import Money
from tests.support import processes
from tests.support.relay.processes import start_process
from tests.support.services.webhook_harness import (
    AT,
    WebhookGround,
    event,
    webhook_ground,
)

CAPTURED = News("CAPTURED", "txn-1")
TRIGGER = """
    CREATE FUNCTION payments.fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not today'; END $$;
    CREATE TRIGGER fail BEFORE {what} FOR EACH ROW EXECUTE FUNCTION payments.fail();
"""


@pytest.fixture
async def ground(database_url: str) -> AsyncIterator[WebhookGround]:
    async with webhook_ground(database_url) as ground:
        yield ground


async def test_a_webhook_moves_its_charge_and_tells_it_once(ground: WebhookGround) -> None:
    await ground.charge()
    answer = await ground.post(event("captured"))
    assert (answer.status_code, answer.json()) == (200, {"event_id": "evt-txn-1-captured", "outcome": "applied"})
    assert await ground.stands() == ("CAPTURED", "txn-1", 0)
    payload = await ground.connection.fetchval("SELECT payload::text FROM surefoot.outbox")
    assert json.loads(payload) == {
        "charge_id": "ch-1",
        "tenant": "acme",
        "amount": {"minor_units": 2000, "currency": "EUR"},
        "gateway": "provider",
        "gateway_txn_id": "txn-1",
    }


@pytest.mark.parametrize(
    ("kind", "status"),
    [("authorized", "AUTHORIZED"), ("captured", "CAPTURED"), ("declined", "DECLINED"), ("voided", "VOIDED")],
)
async def test_each_kind_has_its_state_and_its_event(ground: WebhookGround, kind: str, status: str) -> None:
    await ground.charge()
    assert await ground.outcome(event(kind, reason="expired_card")) == "applied"
    assert (await ground.stands())[0] == status
    assert await ground.told() == [f"charge.{kind}"]


async def test_twenty_duplicates_at_once_take_effect_once(ground: WebhookGround) -> None:
    await ground.charge()
    answers = await asyncio.gather(*(ground.post(event("captured")) for _ in range(20)))
    assert [answer.status_code for answer in answers] == [200] * 20
    assert sorted(answer.json()["outcome"] for answer in answers) == ["applied"] + ["duplicate"] * 19
    assert await ground.told() == ["charge.captured"]
    assert await ground.violations() == set()


async def test_the_same_news_under_twenty_ids_takes_effect_once(ground: WebhookGround) -> None:
    await ground.charge()
    bodies = [event("captured", id_=f"evt-{number}") for number in range(20)]
    answers = await asyncio.gather(*(ground.post(body) for body in bodies))
    assert sorted(answer.json()["outcome"] for answer in answers) == ["applied"] + ["duplicate"] * 19
    assert await ground.told() == ["charge.captured"]
    assert len(await ground.events()) == 1


async def test_captured_before_authorized_ends_captured(ground: WebhookGround) -> None:
    await ground.charge()
    assert await ground.outcome(event("captured")) == "applied"
    assert await ground.outcome(event("authorized")) == "late"
    assert (await ground.stands())[0] == "CAPTURED"
    assert await ground.told() == ["charge.captured"]
    assert await ground.events() == {"evt-txn-1-captured": "APPLIED", "evt-txn-1-authorized": "LATE"}


async def test_what_comes_before_its_charge_is_kept_and_applied_when_the_charge_is_written_down(
    ground: WebhookGround,
) -> None:
    assert await ground.outcome(event("captured", charge="ch-1", created=AT + 1)) == "unmatched"
    assert await ground.outcome(event("authorized", created=AT)) == "unmatched"  # names the transaction alone
    assert await ground.told() == []
    async with AsyncSession(ground.engine) as session, session.begin():
        await ground.charge(txn=None)
        await apply_kept(session, "ch-1")
    assert await ground.stands() == ("CAPTURED", "txn-1", 0)
    assert await ground.events() == {"evt-txn-1-captured": "APPLIED", "evt-txn-1-authorized": "LATE"}
    assert await ground.told() == ["charge.captured"]


async def test_what_names_an_unknown_transaction_is_kept_and_applied_by_the_inline_answer(
    ground: WebhookGround,
) -> None:
    await ground.charge(txn=None)
    assert await ground.outcome(event("captured")) == "unmatched"
    assert await ground.outcome(event("captured")) == "duplicate"
    assert isinstance(await ground.inline(News("AUTHORIZED", "txn-1")), Moved)
    assert await ground.stands() == ("CAPTURED", "txn-1", 0)
    assert await ground.told() == ["charge.authorized", "charge.captured"]
    assert await ground.events() == {"evt-txn-1-captured": "APPLIED"}


async def test_a_webhook_that_names_charge_and_transaction_brings_in_those_that_waited(ground: WebhookGround) -> None:
    await ground.charge(txn=None)
    assert await ground.outcome(event("captured")) == "unmatched"
    assert await ground.outcome(event("authorized", charge="ch-1")) == "applied"
    assert await ground.stands() == ("CAPTURED", "txn-1", 0)
    assert await ground.violations() == set()


async def test_a_webhook_and_the_inline_answer_at_once_tell_it_once(ground: WebhookGround) -> None:
    for number in range(15):
        charge, txn = f"ch-{number}", f"txn-{number}"
        await ground.charge(charge, txn=None)
        body = event("captured", txn=txn, charge=charge if number % 2 else None)
        await asyncio.gather(ground.post(body), ground.inline(News("CAPTURED", txn), charge))
        assert await ground.stands(charge) == ("CAPTURED", txn, 0)
    assert await ground.told() == ["charge.captured"] * 15
    assert await ground.violations() == set()


async def test_the_inline_answer_after_the_webhook_is_late_and_tells_nothing(ground: WebhookGround) -> None:
    await ground.charge(txn=None)
    assert await ground.outcome(event("captured", charge="ch-1")) == "applied"
    assert isinstance(await ground.inline(CAPTURED), Late)
    assert await ground.told() == ["charge.captured"]


async def _one_order(ground: WebhookGround, number: int, order: tuple[str, ...]) -> None:
    charge, txn = f"ch-{number}", f"txn-{number}"
    for what in order:
        match what:
            case "create":
                await ground.charge(charge, txn=None)
                async with AsyncSession(ground.engine) as session, session.begin():
                    await apply_kept(session, charge)
            case "inline":
                await ground.inline(News("CAPTURED", txn, Money.minor(2000, "EUR")), charge)
            case "authorized":
                await ground.outcome(event("authorized", txn=txn, created=AT))
            case "captured":
                await ground.outcome(event("captured", txn=txn, charge=charge, created=AT + 1))
            case "refunded":
                await ground.outcome(event("refunded", txn=txn, amount=500, created=AT + 2))


async def test_in_every_order_the_charge_ends_the_same_and_nothing_is_left(ground: WebhookGround) -> None:
    orders = [
        order
        for order in itertools.permutations(["create", "inline", "authorized", "captured", "refunded"])
        if order.index("create") < order.index("inline")
    ]
    assert len(orders) == 60
    for number, order in enumerate(orders):
        await _one_order(ground, number, order)
        assert await ground.stands(f"ch-{number}") == ("CAPTURED", f"txn-{number}", 500), order
    assert "UNMATCHED" not in (await ground.events()).values()
    assert await ground.violations() == set()


async def test_all_at_once_the_charge_ends_the_same_and_nothing_is_left(ground: WebhookGround) -> None:
    """Nobody waits for anybody who waits for him, either: every answer is a 200."""
    for number in range(8):
        await ground.charge(f"ch-{number}", txn=None)
    posts = [
        event(
            kind,
            txn=f"txn-{number}",
            charge=f"ch-{number}" if named else None,
            amount=amount,
            id_=f"{kind}{copy}-{number}",
        )
        for number in range(8)
        for kind, named, amount in (("authorized", 0, 2000), ("captured", 1, 2000), ("refunded", 0, 500))
        for copy in range(2)
    ]
    inline = [ground.inline(News("CAPTURED", f"txn-{number}"), f"ch-{number}") for number in range(8)]
    answers, _ = await asyncio.gather(asyncio.gather(*(ground.post(body) for body in posts)), asyncio.gather(*inline))
    assert {answer.status_code for answer in answers} == {200}
    for number in range(8):
        assert await ground.stands(f"ch-{number}") == ("CAPTURED", f"txn-{number}", 500)
    assert await ground.violations() == set()


async def test_a_refund_in_parts_is_told_for_each_total_and_ends_with_the_whole(ground: WebhookGround) -> None:
    await ground.charge(status="CAPTURED")
    for amount, outcome in ((1500, "applied"), (500, "late"), (1500, "duplicate"), (2000, "applied")):
        assert await ground.outcome(event("refunded", amount=amount, id_=f"{outcome}-{amount}")) == outcome
    assert await ground.stands() == ("REFUNDED", "txn-1", 2000)
    assert await ground.told() == ["charge.refunded"] * 2
    assert isinstance(await ground.inline(News("REFUNDED", amount=Money.minor(2000, "EUR"))), Late)
    assert isinstance(await ground.inline(News("REFUNDED")), Late)


CONTRADICTIONS: list[tuple[str, dict[str, Any], str]] = [
    ("DECLINED", {"kind": "captured"}, "is DECLINED, and the gateway says CAPTURED"),
    ("CAPTURED", {"kind": "declined"}, "is CAPTURED, and the gateway says DECLINED"),
    ("PENDING", {"kind": "captured", "amount": 1}, "is of 20.00 EUR, and the gateway speaks of 0.01 EUR"),
    ("CAPTURED", {"kind": "refunded", "amount": 2001}, "is of 20.00 EUR, and the gateway speaks of 20.01 EUR"),
    ("PENDING", {"kind": "captured", "txn": "txn-2", "charge": "ch-1"}, "it may have been charged twice"),
]


@pytest.mark.parametrize(("status", "said", "sentence"), CONTRADICTIONS)
async def test_what_cannot_be_true_is_kept_for_people_and_changes_nothing(
    ground: WebhookGround, status: str, said: dict[str, Any], sentence: str
) -> None:
    await ground.charge(status=status)
    assert await ground.outcome(event(**said)) == "contradicted"
    assert await ground.stands() == (status, "txn-1", 0)
    assert sentence in await ground.connection.fetchval("SELECT note FROM payments.payment_events")
    assert await ground.told() == []


async def test_a_transaction_is_of_one_charge_alone(ground: WebhookGround) -> None:
    await ground.charge("ch-1", txn="txn-1")
    await ground.charge("ch-2", txn=None)
    assert await ground.outcome(event("captured", txn="txn-1", charge="ch-2")) == "contradicted"
    found = await ground.inline(News("CAPTURED", "txn-1"), "ch-2")
    assert isinstance(found, Contradicted)
    assert "another charge is" in found.sentence
    assert isinstance(await ground.inline(CAPTURED, "ch-3"), Contradicted)
    assert (await ground.stands("ch-1"))[0] == (await ground.stands("ch-2"))[0] == "PENDING"


async def test_another_gateways_charge_is_not_moved(database_url: str) -> None:
    async with webhook_ground(database_url, gateway="another") as ground:
        await ground.charge()
        assert await ground.outcome(event("captured", charge="ch-1")) == "unmatched"
        assert (await ground.stands())[0] == "PENDING"


@pytest.mark.parametrize(
    "what",
    ["INSERT ON surefoot.outbox_events", "UPDATE ON payments.charges", "UPDATE ON payments.payment_events"],
)
async def test_a_handler_that_fails_leaves_no_marker_so_the_resend_works(ground: WebhookGround, what: str) -> None:
    await ground.charge()
    await ground.connection.execute(TRIGGER.format(what=what))
    failed = await ground.post(event("captured"))
    assert (failed.status_code, failed.headers["retry-after"]) == (503, "5")
    assert failed.headers["content-type"] == "application/problem+json"
    assert "not today" not in failed.text
    assert (await ground.events(), await ground.told()) == ({}, [])
    assert (await ground.stands())[0] == "PENDING"
    await ground.connection.execute("DROP FUNCTION payments.fail CASCADE")
    assert await ground.outcome(event("captured")) == "applied"
    assert await ground.told() == ["charge.captured"]


@pytest.mark.parametrize(
    ("where", "outcome"),
    [
        ("payment_webhook.recorded", "applied"),
        ("payment_webhook.settled", "applied"),
        ("payment_webhook.committed", "duplicate"),
    ],
)
async def test_a_process_that_is_killed_on_the_way_leaves_all_or_nothing(
    ground: WebhookGround, where: str, outcome: str
) -> None:
    await ground.charge()
    child = await processes.start_async(
        ["tests.support.services.webhook_child", ground.url],
        environment={**os.environ, failpoints.VARIABLE: f"{where}=kill"},
    )
    assert await child.wait() == -signal.SIGKILL
    assert await ground.outcome(event("captured")) == outcome
    assert (await ground.stands())[0] == "CAPTURED"
    assert await ground.told() == ["charge.captured"]
    assert await ground.violations() == set()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("where", "answer", "outcome"),
    [
        ("payment_webhook.recorded", "503 failed", "applied"),
        ("payment_webhook.settled", "503 failed", "applied"),
        ("payment_webhook.committed", "200 applied", "duplicate"),
    ],
)
async def test_a_process_that_freezes_on_the_way_and_wakes_does_nothing_behind_the_resend(
    ground: WebhookGround, where: str, answer: str, outcome: str, tmp_path: Path
) -> None:
    """The resend waits until the server has ended the transaction of the frozen process, if it has one. (In production
    that takes longer than a resend waits for a lock: it is answered with 503, and the provider sends once more.)"""
    await ground.charge()
    armed = {failpoints.VARIABLE: f"{where}=stop"}
    frozen = await start_process(["tests.support.services.webhook_child", ground.url], tmp_path / "child.log", armed)
    try:
        await frozen.stopped()
        assert await ground.outcome(event("captured")) == outcome
        frozen.signal(signal.SIGCONT)
        assert await frozen.ended() == 0, frozen.log.read_text()
    finally:
        frozen.signal(signal.SIGKILL)
    assert answer in frozen.log.read_text()
    assert await ground.stands() == ("CAPTURED", "txn-1", 0)
    assert await ground.events() == {"evt-txn-1-captured": "APPLIED"}
    assert await ground.told() == ["charge.captured"]
    assert await ground.violations() == set()


async def test_what_belongs_to_a_step_is_done_by_whoever_makes_it_and_with_it_or_not_at_all(database_url: str) -> None:
    noted: list[str] = []

    async def after(session: AsyncSession, moved: Moved) -> None:
        noted.append(f"{moved.charge.charge_id} {moved.charge.status}")
        if len(noted) == 1:
            raise SurefootError("The first time it fails.")

    async with webhook_ground(database_url, after=after) as ground:
        await ground.charge("ch-1")
        await ground.charge("ch-2", txn="txn-2")
        assert (await ground.post(event())).status_code == 503
        assert ((await ground.stands())[0], await ground.events()) == ("PENDING", {})
        assert await ground.outcome(event()) == "applied"
        await ground.inline(CAPTURED, after=after)
        await ground.inline(News("CAPTURED", "txn-2"), "ch-2", after=after)
        assert await ground.outcome(event(txn="txn-2")) == "late"
    assert noted == ["ch-1 CAPTURED", "ch-1 CAPTURED", "ch-2 CAPTURED"]


async def test_the_news_can_go_to_another_outbox_than_the_sessions_own(ground: WebhookGround) -> None:
    await ground.charge()
    published: list[ChargeNews] = []
    async with AsyncSession(ground.engine) as session, session.begin():
        await move_forward(session, "ch-1", CAPTURED, publish=published.append)
    assert [type(news).__name__ for news in published] == ["ChargeCaptured"]
    assert await ground.told() == []
