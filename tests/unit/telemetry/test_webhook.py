"""Alerts as a receiver gets them: signed, in the shape it takes, under one id however often they are tried."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook as Verifier

from dlq.settings import DlqSettings
from surefoot.telemetry import alerts as module
from surefoot.telemetry.alerts import Alert, Alerts
from surefoot.telemetry.webhook import Webhook
from surefoot.telemetry.webhook_body import body_of

pytestmark = pytest.mark.slow

KEY = bytes(range(32))
SECRET = "whsec_" + base64.b64encode(KEY).decode()


@dataclass
class Receiver:
    """An HTTP server that refuses the first `failures` posts, and keeps all of them."""

    failures: int = 0
    url: str = ""
    posts: asyncio.Queue[tuple[dict[str, str], bytes]] = field(default_factory=asyncio.Queue)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")[1:-2]
                headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head)}
                self.posts.put_nowait((headers, await reader.readexactly(int(headers["content-length"]))))
                self.failures -= 1
                status = b"500 No" if self.failures >= 0 else b"200 OK"
                writer.write(b"HTTP/1.1 " + status + b"\r\ncontent-length: 0\r\n\r\n")
        except asyncio.IncompleteReadError:
            writer.close()

    async def next_post(self) -> tuple[dict[str, str], bytes]:
        return await asyncio.wait_for(self.posts.get(), 60)


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    receiver = Receiver()
    server = await asyncio.start_server(receiver.serve, "127.0.0.1", 0)
    receiver.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/alerts"
    yield receiver
    server.close()


def body(shape: Any, sentence: str, suppressed: int = 0, **details: str) -> Any:
    return json.loads(body_of(shape, code="new_group", sentence=sentence, details=details, suppressed=suppressed))


async def test_an_independent_verifier_takes_a_posted_alert(receiver: Receiver) -> None:
    alerts = Alerts(Webhook(receiver.url, key=KEY))
    await alerts.raise_alert(Alert("new_group", "Ä new group.", {"consumer": "stock"}))
    headers, posted = await receiver.next_post()
    await alerts.close()
    assert Verifier(SECRET).verify(posted, headers) == {
        "code": "new_group",
        "sentence": "Ä new group.",
        "details": {"consumer": "stock"},
        "suppressed": 0,
    }


async def test_a_post_that_is_tried_again_keeps_its_id_and_the_next_has_another(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WEBHOOK_TRIES", 2)
    receiver.failures = 1
    alerts = Alerts(Webhook(receiver.url, key=KEY))
    await alerts.raise_alert(Alert("new_group", "First."))
    first, again = await receiver.next_post(), await receiver.next_post()
    await alerts.raise_alert(Alert("many_open", "Second."))
    second = await receiver.next_post()
    await alerts.close()
    for headers, posted in (first, again, second):
        Verifier(SECRET).verify(posted, headers)
    assert first[0]["webhook-id"] == again[0]["webhook-id"] != second[0]["webhook-id"]


async def test_a_webhook_without_a_secret_is_not_signed(receiver: Receiver) -> None:
    alerts = Alerts(receiver.url)
    await alerts.raise_alert(Alert("new_group", "A new group."))
    headers, _ = await receiver.next_post()
    await alerts.close()
    assert headers["content-type"] == "application/json"
    assert not [name for name in headers if name.startswith("webhook-")]


async def test_alerts_of_different_causes_are_each_posted(receiver: Receiver) -> None:
    alerts = Alerts(receiver.url)
    for cause in ("one", "one", "other"):
        await alerts.raise_alert(Alert("new_group", cause, cause=cause))
    posts = [json.loads((await receiver.next_post())[1])["sentence"] for _ in range(2)]
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
