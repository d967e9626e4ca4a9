"""Alerts as a receiver gets them: signed, in the shape it takes, under one id however often they are tried."""

import base64
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook as Verifier

from surefoot.dlq.settings import DlqSettings
from surefoot.telemetry import alerts as module
from surefoot.telemetry.alerts import Alert, Alerts
from surefoot.telemetry.webhook import Webhook, body_of
from tests.support.alert_receiver import AlertReceiver, alert_receiver

pytestmark = pytest.mark.slow

KEY = bytes(range(32))
SECRET = "whsec_" + base64.b64encode(KEY).decode()


@pytest.fixture
async def receiver() -> AsyncIterator[AlertReceiver]:
    async with alert_receiver() as receiver:
        yield receiver


def body(shape: Any, sentence: str, suppressed: int = 0, **details: str) -> Any:
    return json.loads(body_of(shape, code="new_group", sentence=sentence, details=details, suppressed=suppressed))


async def test_an_independent_verifier_takes_a_posted_alert(receiver: AlertReceiver) -> None:
    alerts = Alerts(Webhook(receiver.url, key=KEY))
    await alerts.raise_alert(Alert("new_group", "Ä new group.", {"consumer": "stock"}))
    post = await receiver.next_post()
    await alerts.close()
    assert Verifier(SECRET).verify(post.body, post.headers) == {
        "code": "new_group",
        "sentence": "Ä new group.",
        "details": {"consumer": "stock"},
        "suppressed": 0,
    }


async def test_a_post_that_is_tried_again_keeps_its_id_and_the_next_has_another(
    receiver: AlertReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WEBHOOK_TRIES", 2)
    receiver.failures = 1
    alerts = Alerts(Webhook(receiver.url, key=KEY))
    await alerts.raise_alert(Alert("new_group", "First."))
    first, again = await receiver.next_post(), await receiver.next_post()
    await alerts.raise_alert(Alert("many_open", "Second."))
    second = await receiver.next_post()
    await alerts.close()
    for post in (first, again, second):
        Verifier(SECRET).verify(post.body, post.headers)
    assert first.headers["webhook-id"] == again.headers["webhook-id"] != second.headers["webhook-id"]


async def test_a_webhook_without_a_secret_is_not_signed(receiver: AlertReceiver) -> None:
    alerts = Alerts(receiver.url)
    await alerts.raise_alert(Alert("new_group", "A new group."))
    headers = (await receiver.next_post()).headers
    await alerts.close()
    assert headers["content-type"] == "application/json"
    assert not [name for name in headers if name.startswith("webhook-")]


async def test_alerts_of_different_causes_are_each_posted(receiver: AlertReceiver) -> None:
    alerts = Alerts(receiver.url)
    for cause in ("one", "one", "other"):
        await alerts.raise_alert(Alert("new_group", cause, cause=cause))
    posts = [(await receiver.next_post()).json()["sentence"] for _ in range(2)]
    await alerts.close()
    assert posts == ["one", "other"]
    assert receiver.posts.empty()


def test_the_paces_of_causes_long_gone_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_PACES", 10)
    alerts = Alerts("http://nowhere.invalid", interval_s=0)
    for number in range(100):
        alerts._enqueue(Alert("new_group", "A new group.", cause=str(number)))
    assert len(alerts._paces) <= 11


def test_slack_gets_a_text_in_which_nothing_from_an_event_calls_a_channel() -> None:
    assert body("slack", "Said <!channel> & more", 2, error="<b>") == {
        "text": "*new_group*: Said &lt;!channel&gt; &amp; more\nerror: &lt;b&gt;\n(2 more like it were not posted.)"
    }


@given(st.text(alphabet=st.characters(), max_size=50))
def test_any_text_can_be_posted(text: str) -> None:
    assert body("json", text)["sentence"] == text
    assert body("slack", text)["text"].startswith("*new_group*: ")


def test_a_secret_is_shown_nowhere() -> None:
    settings = DlqSettings(alert_webhook="https://example.org/x", alert_secret=SECRET)
    assert SECRET.removeprefix("whsec_") not in repr(settings)
    assert repr(KEY) not in repr(Webhook("https://example.org/x", key=KEY))


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"alert_webhook": "example.org"}, "write it as https://host/path"),
        ({"alert_webhook": "https://example.org", "alert_secret": "whsec_aaaa"}, "must be whsec_ followed by"),
        ({"alert_secret": SECRET}, "set SUREFOOT_DLQ_ALERT_WEBHOOK too"),
        ({"alert_shape": "xml"}, "'json' or 'slack'"),
    ],
)
def test_settings_of_alerts_that_cannot_work_are_refused(values: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says) as refused:
        DlqSettings(**values)
    assert SECRET not in str(refused.value)
