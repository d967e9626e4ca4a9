"""Who gets into the payments API, and what is told to whoever sends what it cannot use."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from services.front_door import MOST_BYTES
from services.payment.api.access import Access
from services.payment.api.app import Parts, api
from services.payment.http_gateway import HttpGateway
from services.payment.settings import PaymentSettings, WebhookSettings
from services.tables import create_tables
from surefoot.idempotency import Store
from tests.support.corpus import each_of
from tests.support.services.payment_api_harness import (
    ACCESS,
    ACME_KEY,
    EUR_20,
    assert_problem,
    authorised,
    new_key,
    settings,
)
from tests.support.services.webhook_harness import SECRET, event, signed

NOBODY = "http://127.0.0.1:9"
JSON = {"Content-Type": "application/json"}


@asynccontextmanager
async def opened(
    url: str,
    access: Access = ACCESS,
    base_url: str = "http://127.0.0.1",
    webhooks: WebhookSettings | None = None,
) -> AsyncIterator[httpx.AsyncClient]:
    """The API without a provider, asked in this process."""
    await create_tables(url, "payment")
    await create_tables(url, "ledger")
    layer = settings()
    gateway = HttpGateway(PaymentSettings(provider_url=NOBODY))
    async with Store(url, layer) as store:
        app = api(Parts(url, store, layer, access, gateway, webhooks))
        async with app.router.lifespan_context(app):
            transport = httpx.ASGITransport(app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url=base_url) as client:
                yield client
    await gateway.close()


@pytest.fixture
async def client(database_url: str) -> AsyncIterator[httpx.AsyncClient]:
    async with opened(database_url) as client:
        yield client


async def charge(client: httpx.AsyncClient, body: Any, **headers: str) -> httpx.Response:
    said = {"Idempotency-Key": new_key(), **authorised(), **JSON, **headers}
    if isinstance(body, bytes):
        return await client.post("/v1/charges", content=body, headers=said)
    return await client.post("/v1/charges", json=body, headers=said)


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer nobody"}, {"Authorization": f"Basic {ACME_KEY}"}])
async def test_strangers_learn_nothing_not_even_what_is_there(
    client: httpx.AsyncClient, headers: dict[str, str]
) -> None:
    for path in ("/v1/charges/ch_1", "/v1/accounts/main-EUR", "/v1/nothing", "/"):
        refused = await client.get(path, headers=headers)
        assert_problem(refused, 401, "not_let_in")
        assert refused.headers["www-authenticate"].startswith("Bearer")
    sent = await client.post("/v1/charges", json={"amount": EUR_20}, headers={**headers, "Idempotency-Key": new_key()})
    assert_problem(sent, 401, "not_let_in")


async def test_two_authorizations_are_none(client: httpx.AsyncClient) -> None:
    twice = [("Authorization", f"Bearer {ACME_KEY}"), ("Authorization", "Bearer other")]
    assert_problem(await client.get("/v1/charges/ch_1", headers=twice), 401, "not_let_in", "more than one")


async def test_a_refused_request_leaves_its_key_as_new_as_before(client: httpx.AsyncClient) -> None:
    key = new_key()
    await client.post("/v1/charges", json={"amount": EUR_20}, headers={"Idempotency-Key": key})
    await charge(client, {"amount": {"minor_units": 0, "currency": "EUR"}}, **{"Idempotency-Key": key})
    assert_problem(await charge(client, {"amount": EUR_20}, **{"Idempotency-Key": key}), 503, "provider_away")


async def test_what_describes_it_is_open_to_all(client: httpx.AsyncClient) -> None:
    for path in ("/openapi.json", "/docs", "/healthz", "/problems/idempotency/key-missing"):
        assert (await client.get(path)).status_code == 200, path


async def test_an_open_api_is_open_to_whoever_asks_this_machine_alone(database_url: str) -> None:
    anybody = Access({}, is_open=True)
    async with opened(database_url, anybody) as client:
        assert_problem(await client.get("/v1/charges/ch_1"), 404, "unknown")
    async with opened(database_url, anybody, "http://evil.example") as client:
        assert_problem(await client.get("/v1/charges/ch_1"), 401, "not_let_in", "127.0.0.1")


async def test_webhooks_need_a_signature_in_place_of_an_api_key(database_url: str) -> None:
    body = event()
    async with opened(database_url, webhooks=WebhookSettings(secrets=SecretStr(SECRET))) as client:
        assert (await client.post("/webhooks/payment", content=body)).status_code == 400
        headers = signed(body, at=int(time.time()))
        answer = await client.post("/webhooks/payment", content=body, headers=headers)
        assert (answer.status_code, answer.json()["outcome"]) == (200, "unmatched"), answer.text
    async with opened(database_url) as client:
        assert_problem(await client.post("/webhooks/payment", content=body, headers=headers), 404, "http")


async def test_a_write_without_a_key_is_refused(client: httpx.AsyncClient) -> None:
    refused = await client.post("/v1/charges", json={"amount": EUR_20}, headers=authorised())
    assert (refused.status_code, refused.headers["content-type"]) == (400, "application/problem+json")
    assert refused.json()["type"].endswith("/key-missing")


@each_of(
    ("body", "words"),
    [
        ({}, "amount"),
        ({"amount": {"minor_units": 19.99, "currency": "EUR"}}, "float"),
        ({"amount": 19.99}, "float"),
        ({"amount": {"amount": "19.99", "currency": "EUR"}}, "minor_units"),
        ({"amount": {"minor_units": 0, "currency": "EUR"}}, "from 1 to"),
        ({"amount": {"minor_units": -5, "currency": "EUR"}}, "from 1 to"),
        ({"amount": {"minor_units": 10**12, "currency": "EUR"}}, "from 1 to"),
        ({"amount": {"minor_units": 10**40, "currency": "EUR"}}, "minor units"),
        ({"amount": {"minor_units": 1, "currency": "EURO"}}, "ISO 4217"),
        ({"amount": EUR_20, "description": "a\x00b"}, "control character"),
        ({"amount": EUR_20, "description": "x" * 201}, "description"),
        ({"amount": EUR_20, "card": "4242"}, "card"),
        (b"{", "JSON"),
        (b"[]", "body"),
        (b'{"amount": {"minor_units": NaN, "currency": "EUR"}}', ""),
    ],
)
async def test_what_does_not_fit_is_told_in_a_sentence(client: httpx.AsyncClient, body: Any, words: str) -> None:
    refused = await charge(client, body)
    assert words in assert_problem(refused, 422, "does_not_fit")["detail"]
    assert "4242" not in refused.text


async def test_what_is_not_json_or_too_large_is_not_read(client: httpx.AsyncClient) -> None:
    assert_problem(await charge(client, b"amount=1", **{"Content-Type": "text/plain"}), 415, "not_json")
    assert_problem(await charge(client, b"x" * (MOST_BYTES + 1)), 413, "too_large")


async def test_what_is_not_there_is_a_problem_too(client: httpx.AsyncClient) -> None:
    assert_problem(await client.get("/v1/nothing", headers=authorised()), 404, "http", "/v1/nothing")
    refused = await client.delete("/v1/accounts/savings", headers=authorised())
    assert_problem(refused, 405, "http", "DELETE")
    assert refused.headers["allow"] == "GET, PUT"


async def test_answers_are_not_to_be_kept_by_anybody_on_the_way(client: httpx.AsyncClient) -> None:
    answer = await client.get("/v1/charges/ch_1", headers=authorised())
    assert answer.headers["cache-control"] == "no-store"


async def test_the_document_says_which_writes_need_a_key(client: httpx.AsyncClient) -> None:
    paths = (await client.get("/openapi.json")).json()["paths"]
    for path in ("/v1/charges", "/v1/refunds", "/v1/transfers"):
        described = {one["name"]: one for one in paths[path]["post"]["parameters"]}
        assert described["Idempotency-Key"]["required"]
        assert described["Idempotency-Key"]["example"]
        assert paths[path]["post"]["security"] == [{"bearer": []}]
