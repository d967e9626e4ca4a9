"""Who gets past the webhooks' door: nobody whose signature, age or body is not as it should be, and always with a
sentence."""

import json
from collections.abc import AsyncIterator

import pytest
from prometheus_client import REGISTRY
from pydantic import SecretStr

from services.payment.settings import WebhookSettings
from services.payment.webhooks import PATH, webhook_router
from surefoot.errors import ConfigurationError
from tests.support.corpus import each_of
from tests.support.services.webhook_harness import (
    AT,
    NEXT_SECRET,
    SECRET,
    WebhookGround,
    event,
    signed,
    webhook_ground,
)


@pytest.fixture
async def ground(database_url: str) -> AsyncIterator[WebhookGround]:
    async with webhook_ground(database_url) as ground:
        yield ground


async def test_a_database_that_cannot_do_it_is_a_503_and_never_a_500(ground: WebhookGround) -> None:
    await ground.connection.execute("ALTER TABLE payments.payment_events RENAME TO elsewhere")
    assert (await ground.post(event())).status_code == 503
    await ground.connection.execute("ALTER TABLE payments.elsewhere RENAME TO payment_events")


@pytest.fixture
async def charged(ground: WebhookGround) -> WebhookGround:
    await ground.charge()
    return ground


@each_of(
    ("headers", "reason"),
    [
        ({}, "missing"),
        ({"webhook-id": "msg-1", "webhook-timestamp": str(AT)}, "missing"),
        ({**signed(event()), "webhook-timestamp": "soon"}, "malformed"),
        ({**signed(event()), "webhook-timestamp": "-1"}, "malformed"),
        ({**signed(event()), "webhook-timestamp": "9" * 300}, "malformed"),
        ({**signed(event()), "webhook-signature": "v1,%%%"}, "malformed"),
        ({**signed(event()), "webhook-signature": "v1," + "A" * 9000}, "malformed"),
        ({**signed(event()), "webhook-id": "msg-2"}, "wrong_signature"),
        (signed(event(amount=1)), "wrong_signature"),
        (signed(event(), NEXT_SECRET), "wrong_signature"),
        (signed(event(), at=AT - 301), "too_old"),
        (signed(event(), at=AT + 301), "too_new"),
    ],
)
async def test_headers_that_cannot_be_believed_are_a_400(
    charged: WebhookGround, headers: dict[str, str], reason: str
) -> None:
    answer = await charged.post(event(), headers)
    assert (answer.status_code, answer.json()["reason"]) == (400, reason)
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["detail"].endswith(".")
    assert ((await charged.stands())[0], await charged.events()) == ("PENDING", {})


@pytest.mark.parametrize("name", ["webhook-id", "webhook-timestamp", "webhook-signature"])
async def test_a_header_that_came_twice_or_is_no_ascii_is_a_400(ground: WebhookGround, name: str) -> None:
    lines = [(key.encode(), value.encode()) for key, value in signed(event()).items()]
    again = next(value for key, value in lines if key == name.encode())
    for extra in ((name.encode(), again), (name.encode(), b"\xff\xfe")):
        answer = await ground.client.post(PATH, content=event(), headers=[*lines, extra])
        assert (answer.status_code, answer.json()["reason"]) == (400, "malformed")


NO_BODIES: list[bytes] = [
    b"",
    b"null",
    b"[]",
    b"\xff\xfe",
    b"{",
    b"[" * 10_000,
    b'{"id": "evt-1"}',
    b'{"id": 1, "type": "payment.captured"}',
    event(id_="with a space"),
    event(id_="x" * 256),
    event(txn="nul\x00"),
    event(txn=""),
    event(charge="x" * 65),
    event(amount=0),
    event(amount=-5),
    event(amount=2**63),
    event(created=10**30),
    event(created=-(10**11)),
    event(reason="\x00"),
    event(reason="\ud800"),
    event().replace(b"2000", b"20.5"),
    event().replace(b"EUR", b"XXX"),
    event().replace(str(AT).encode(), b'"9999-12-31T23:59:59-12:00"'),
    event().replace(str(AT).encode(), b'"2026-03-01T12:00:00"'),
]


@each_of("body", NO_BODIES)
async def test_a_signed_body_that_cannot_be_used_is_a_400(ground: WebhookGround, body: bytes) -> None:
    answer = await ground.post(body)
    assert (answer.status_code, answer.json()["reason"]) == (400, "does_not_fit")
    assert await ground.events() == {}


async def test_a_body_that_is_too_large_is_refused_before_it_is_read_to_its_end(ground: WebhookGround) -> None:
    answer = await ground.post(b"x" * (256 * 1024 + 1), {})
    assert (answer.status_code, answer.json()["reason"]) == (413, "too_large")


async def test_a_kind_that_is_nothing_to_us_is_answered_and_left_alone(ground: WebhookGround) -> None:
    assert await ground.outcome(event("disputed")) == "ignored"
    assert await ground.events() == {}


async def test_while_the_secret_changes_the_old_and_the_new_are_good(database_url: str) -> None:
    async with webhook_ground(database_url, secrets=SecretStr(f"{SECRET}, {NEXT_SECRET}")) as ground:
        await ground.charge()
        body = event()
        answers = [
            await ground.post(body, signed(body, *by)) for by in ((SECRET,), (NEXT_SECRET,), (NEXT_SECRET, SECRET))
        ]
        assert [answer.json().get("outcome") for answer in answers] == ["applied", "duplicate", "duplicate"]


async def test_stripes_scheme_does_as_well(database_url: str) -> None:
    async with webhook_ground(database_url, scheme="stripe") as ground:
        await ground.charge()
        body = event()
        assert (await ground.post(body, signed(body))).json()["reason"] == "missing"
        assert (await ground.post(body, signed(body, at=AT - 301, scheme="stripe"))).json()["reason"] == "too_old"
        assert (await ground.post(body, signed(body, scheme="stripe"))).json()["outcome"] == "applied"


@pytest.mark.parametrize(
    ("secrets", "sentence"), [("", "without a secret"), (" , ", "without a secret"), ("x", "whsec_")]
)
async def test_without_a_secret_no_webhook_is_taken_at_all(
    ground: WebhookGround, secrets: str, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUREFOOT_PAYMENT_WEBHOOK_SECRETS", secrets)
    with pytest.raises(ConfigurationError, match=sentence):
        webhook_router(ground.engine, WebhookSettings())


async def test_the_document_has_the_webhook_with_all_that_it_can_answer(ground: WebhookGround) -> None:
    operation = ground.app.openapi()["paths"][PATH]["post"]
    assert set(operation["responses"]) == {"200", "400", "413", "503"}
    schema = operation["requestBody"]["content"]["application/json"]["schema"]
    assert set(schema["properties"]["data"]["properties"]) == {"gateway_txn_id", "charge_id", "amount", "reason"}
    assert "$ref" not in json.dumps(schema)


@pytest.mark.parametrize(
    ("body", "headers", "outcome"),
    [
        (event(), None, "applied"),
        (event(txn="txn-2"), None, "unmatched"),
        (event("disputed"), None, "ignored"),
        (event(amount=0), None, "does_not_fit"),
        (event(), {}, "missing"),
        (event(), signed(event(), at=AT - 301), "too_old"),
        (b"x" * (256 * 1024 + 1), {}, "too_large"),
    ],
)
async def test_every_webhook_is_counted_by_what_became_of_it(
    ground: WebhookGround, body: bytes, headers: dict[str, str] | None, outcome: str
) -> None:
    def counted() -> float:
        return REGISTRY.get_sample_value("surefoot_payment_webhooks_total", {"outcome": outcome}) or 0

    await ground.charge()
    before = counted()
    await ground.post(body, headers)
    assert counted() == before + 1


async def test_a_webhook_that_contradicts_the_books_is_counted(ground: WebhookGround) -> None:
    def counted() -> float:
        return REGISTRY.get_sample_value("surefoot_payment_contradictions_total", {"source": "webhook"}) or 0

    await ground.charge(status="DECLINED")
    before = counted()
    assert await ground.outcome(event("captured")) == "contradicted"
    assert counted() == before + 1
