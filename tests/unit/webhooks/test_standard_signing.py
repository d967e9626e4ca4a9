"""What we sign, an independent implementation of the scheme accepts; what somebody changed, it refuses."""

import base64
import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook, WebhookVerificationError

from surefoot.errors import ConfigurationError
from surefoot.webhooks.standard import secret_bytes, signed_headers
from tests.support.corpus import each_of

KEY = bytes(range(32))
SECRET = "whsec_" + base64.b64encode(KEY).decode()
BODY = b'{"code":"new_group"}'


def now() -> int:
    return int(datetime.now(UTC).timestamp())


def test_the_schemes_own_example_is_signed_as_it_says() -> None:
    key = secret_bytes("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    headers = signed_headers(
        key, message_id="msg_p5jXN8AQM9LWM0D4loKWxJek", at=1614265330, body=b'{"test": 2432232314}'
    )
    assert headers == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


@given(value=st.dictionaries(st.text(max_size=20), st.text(max_size=50), max_size=5))
def test_an_independent_verifier_takes_any_body_we_sign(value: dict[str, str]) -> None:
    body = json.dumps(value).encode()
    headers = signed_headers(secret_bytes(SECRET), message_id="msg_1", at=now(), body=body)
    assert Webhook(SECRET).verify(body, headers) == value


@pytest.mark.parametrize(
    ("changed", "value"),
    [("webhook-id", "msg_2"), ("webhook-timestamp", str(now() - 60)), ("webhook-signature", "v1,AAAA")],
    ids=["id", "timestamp", "signature"],
)
def test_an_independent_verifier_refuses_a_changed_header(changed: str, value: str) -> None:
    headers = signed_headers(KEY, message_id="msg_1", at=now(), body=BODY) | {changed: value}
    with pytest.raises(WebhookVerificationError):
        Webhook(SECRET).verify(BODY, headers)


def test_an_independent_verifier_refuses_a_changed_body_an_old_message_and_another_secret() -> None:
    headers = signed_headers(KEY, message_id="msg_1", at=now(), body=BODY)
    with pytest.raises(WebhookVerificationError):
        Webhook(SECRET).verify(BODY + b" ", headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(SECRET).verify(BODY, signed_headers(KEY, message_id="msg_1", at=now() - 3600, body=BODY))
    with pytest.raises(WebhookVerificationError):
        Webhook("whsec_" + base64.b64encode(b"another" * 5).decode()).verify(BODY, headers)


@each_of(
    "secret",
    [
        "",
        "whsec_",
        "whsec_not Base64!",
        "whsec_" + base64.b64encode(b"short").decode(),
        "whsec_" + base64.b64encode(bytes(65)).decode(),
        base64.b64encode(KEY).decode(),
    ],
)
def test_a_secret_that_is_none_is_refused_without_quoting_it(secret: str) -> None:
    with pytest.raises(ConfigurationError, match="must be whsec_ followed by 24 to 64") as refused:
        secret_bytes(secret)
    assert len(secret) < 10 or secret.removeprefix("whsec_") not in str(refused.value)
