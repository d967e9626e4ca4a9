"""Alerts reach the webhook without ever holding up, or flooding, whoever raises them."""

import asyncio
import time
from collections.abc import AsyncIterator

import pytest
from prometheus_client import REGISTRY

from surefoot.telemetry import alerts as module
from surefoot.telemetry.alerts import Alert, Alerts
from tests.support.alert_receiver import AlertReceiver, alert_receiver
from tests.support.scripted_server import Silence, scripted

pytestmark = pytest.mark.slow

LONG_S = 60.0
STALL_S = 0.25


@pytest.fixture
async def webhook() -> AsyncIterator[AlertReceiver]:
    async with alert_receiver() as webhook:
        yield webhook


@pytest.fixture
async def silent_url() -> AsyncIterator[str]:
    async with scripted(*[Silence()] * 10) as server:
        yield f"{server.url}/alerts"


def failed(number: int = 0, *, topic: str = "order.events") -> Alert:
    return Alert("outbox_event_failed", f"row {number}", {"topic": topic, "reason": "too_large", "key": str(number)})


def counted(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0.0


class Stalls:
    """How long the event loop ever kept a task waiting."""

    longest_s = 0.0

    async def watch(self) -> None:
        while True:
            before = time.monotonic()
            await asyncio.sleep(0.005)
            self.longest_s = max(self.longest_s, time.monotonic() - before - 0.005)


async def test_a_flood_of_one_group_is_one_post_and_does_not_stall_the_loop(webhook: AlertReceiver) -> None:
    alerts, stalls = Alerts(webhook.url, interval_s=LONG_S), Stalls()
    watching = asyncio.create_task(stalls.watch())
    raised = counted("surefoot_alerts_total", code="outbox_event_failed")

    for number in range(500):
        await alerts.raise_alert(failed(number))
        await asyncio.sleep(0)
    first = (await webhook.next_post()).json()
    await alerts.close()
    watching.cancel()

    assert first == {
        "code": "outbox_event_failed",
        "sentence": "row 0",
        "details": {"topic": "order.events", "reason": "too_large", "key": "0"},
        "suppressed": 0,
    }
    assert webhook.posts.empty()
    assert counted("surefoot_alerts_total", code="outbox_event_failed") == raised + 500
    assert stalls.longest_s < STALL_S


async def test_another_group_is_posted_too_over_the_same_connection(webhook: AlertReceiver) -> None:
    alerts = Alerts(webhook.url, interval_s=LONG_S)

    for topic in ("a", "a", "b", "b"):
        await alerts.raise_alert(failed(topic=topic))
    posts = [(await webhook.next_post()).json() for _ in range(2)]
    await alerts.close()

    assert [post["details"]["topic"] for post in posts] == ["a", "b"]
    assert webhook.posts.empty()
    assert webhook.connections == 1


async def test_the_next_post_of_a_group_says_how_many_were_suppressed(webhook: AlertReceiver) -> None:
    alerts = Alerts(webhook.url, interval_s=0.5)
    for number in range(8):
        await alerts.raise_alert(failed(number))
    await webhook.next_post()

    await asyncio.sleep(0.5)
    await alerts.raise_alert(failed(8))
    second = (await webhook.next_post()).json()
    await alerts.close()

    assert (second["sentence"], second["suppressed"]) == ("row 8", 7)


async def test_close_waits_for_what_is_under_way_and_alerts_can_be_raised_again(webhook: AlertReceiver) -> None:
    alerts = Alerts(webhook.url, interval_s=LONG_S)
    for topic in ("a", "b"):
        await alerts.raise_alert(failed(topic=topic))
        await alerts.close()
        assert webhook.posts.get_nowait().json()["details"]["topic"] == topic


async def test_a_webhook_that_never_answers_does_not_hang_close(
    silent_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WEBHOOK_TIMEOUT_S", 1.0)
    dropped = counted("surefoot_alert_webhook_dropped_total")
    alerts = Alerts(silent_url)
    for number in range(3):
        await alerts.raise_alert(failed(topic=f"topic {number}"))
    await asyncio.sleep(0.1)  # the first of them is being posted

    started = time.monotonic()
    await alerts.close()

    assert time.monotonic() - started < 3
    assert counted("surefoot_alert_webhook_dropped_total") == dropped + 3


async def test_a_full_queue_drops_posts_and_counts_them(silent_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WEBHOOK_TIMEOUT_S", 0.1)
    monkeypatch.setattr(module, "WEBHOOK_QUEUE", 2)
    dropped = counted("surefoot_alert_webhook_dropped_total")
    raised = counted("surefoot_alerts_total", code="outbox_event_failed")
    alerts = Alerts(silent_url)

    for number in range(5):
        await alerts.raise_alert(failed(topic=f"topic {number}"))

    assert counted("surefoot_alert_webhook_dropped_total") == dropped + 3
    assert counted("surefoot_alerts_total", code="outbox_event_failed") == raised + 5
    await alerts.close()


async def test_a_webhook_that_is_no_url_fails_its_posts_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WEBHOOK_TRIES", 1)
    failures = counted("surefoot_alert_webhook_failures_total")
    alerts = Alerts("http://[")

    await alerts.raise_alert(failed())
    await alerts.close()

    assert counted("surefoot_alert_webhook_failures_total") == failures + 1
