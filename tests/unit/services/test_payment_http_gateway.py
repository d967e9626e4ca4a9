"""What the gateway makes of whatever a provider may answer."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest

from services.payment.gateway import Barred, Charged, Declined, NotReached, Refunded, RequestRefused, Voided
from services.payment.http_gateway import HttpGateway
from services.payment.settings import PaymentSettings
from surefoot.consumer import DependencyDown, Permanent, Transient
from surefoot.events import Money

EUR_20 = Money.minor(2000, "EUR")


class Provider:
    """Answers what it is told, and keeps what it was asked."""

    def __init__(self) -> None:
        self.answer: Callable[[httpx.Request], httpx.Response] = lambda _: httpx.Response(201, json={})
        self.asked: list[httpx.Request] = []

    def says(self, status: int, **body: Any) -> None:
        self.answer = lambda _: httpx.Response(status, json=body)

    def raises(self, error: Exception) -> None:
        def fail(_: httpx.Request) -> httpx.Response:
            raise error

        self.answer = fail

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        return self.answer(request)


@pytest.fixture
def provider() -> Provider:
    return Provider()


@pytest.fixture
async def gateway(provider: Provider) -> AsyncIterator[HttpGateway]:
    gateway = HttpGateway(PaymentSettings(provider_url="http://provider"), transport=httpx.MockTransport(provider))
    yield gateway
    await gateway.close()


async def charge(gateway: HttpGateway) -> Charged | Declined | Barred:
    return await gateway.charge("k-1", "o-1", EUR_20)


async def test_the_key_goes_with_the_charge(provider: Provider, gateway: HttpGateway) -> None:
    provider.says(201, charge_id="ch_1")
    assert await charge(gateway) == Charged("ch_1")
    (request,) = provider.asked
    assert request.headers["Idempotency-Key"] == "k-1"
    assert request.content == b'{"order_id":"o-1","amount":{"minor_units":2000,"currency":"EUR"}}'


async def test_a_decline_is_an_answer_and_no_error(provider: Provider, gateway: HttpGateway) -> None:
    provider.says(402, code="declined", reason="expired_card")
    assert await charge(gateway) == Declined("expired_card")


async def test_a_reason_that_nobody_knows_is_a_plain_decline(provider: Provider, gateway: HttpGateway) -> None:
    provider.says(402, code="declined", reason="the moon is full")
    assert await charge(gateway) == Declined("declined")


async def test_a_charge_whose_key_was_voided_is_barred(provider: Provider, gateway: HttpGateway) -> None:
    provider.says(409, code="voided")
    assert await charge(gateway) == Barred()


@pytest.mark.parametrize(("status", "code"), [(422, "key_reused"), (400, None), (409, "other")])
async def test_a_refused_request_is_for_good(
    provider: Provider, gateway: HttpGateway, status: int, code: str | None
) -> None:
    provider.says(status, code=code, sentence="No.")
    with pytest.raises(Permanent, match=rf"\({status} .*No\."):
        await charge(gateway)


@pytest.mark.parametrize("status", [500, 502, 504, 429])
async def test_trouble_of_the_provider_is_tried_again(provider: Provider, gateway: HttpGateway, status: int) -> None:
    provider.says(status)
    with pytest.raises(Transient, match=str(status)):
        await charge(gateway)


@pytest.mark.parametrize(
    "error",
    [httpx.ReadTimeout("slow"), httpx.ReadError("cut off"), httpx.RemoteProtocolError("half"), httpx.WriteTimeout("")],
)
async def test_no_answer_is_tried_again_because_nobody_knows_what_was_done(
    provider: Provider, gateway: HttpGateway, error: Exception
) -> None:
    provider.raises(error)
    with pytest.raises(Transient, match="same key"):
        await charge(gateway)


@pytest.mark.parametrize("error", [httpx.ConnectError("refused"), httpx.ConnectTimeout("nobody")])
async def test_a_provider_that_is_not_there_costs_no_attempt(
    provider: Provider, gateway: HttpGateway, error: Exception
) -> None:
    provider.raises(error)
    with pytest.raises(DependencyDown, match="is not there"):
        await charge(gateway)


async def test_a_provider_that_says_it_is_away_costs_no_attempt(provider: Provider, gateway: HttpGateway) -> None:
    provider.says(503)
    with pytest.raises(DependencyDown, match="503"):
        await charge(gateway)


@pytest.mark.parametrize("status", [401, 403])
async def test_a_provider_that_does_not_let_us_in_costs_no_attempt(
    provider: Provider, gateway: HttpGateway, status: int
) -> None:
    provider.answer = lambda _: httpx.Response(status, content=b"<html>who are you?</html>")
    for ask in (lambda: charge(gateway), lambda: gateway.void("k-1"), lambda: gateway.refund("r-1", "ch_1", EUR_20)):
        with pytest.raises(DependencyDown, match=rf"does not let us in \({status}"):
            await ask()


@pytest.mark.parametrize("body", [b"<html>welcome</html>", b"[]", b""])
async def test_an_answer_that_is_none_of_the_providers_is_tried_again(
    provider: Provider, gateway: HttpGateway, body: bytes
) -> None:
    provider.answer = lambda _: httpx.Response(201, content=body)
    with pytest.raises(Transient, match="no JSON"):
        await charge(gateway)


async def test_an_answer_without_the_charges_name_is_tried_again(provider: Provider, gateway: HttpGateway) -> None:
    provider.says(201, something="else")
    with pytest.raises(Transient, match="charge_id"):
        await charge(gateway)


async def test_a_void_says_what_it_gave_back(provider: Provider, gateway: HttpGateway) -> None:
    provider.says(200, charge_id="ch_1", refunded={"minor_units": 2000, "currency": "EUR"})
    assert await gateway.void("k-1") == Voided("ch_1", EUR_20)
    provider.says(200, charge_id=None, refunded=None)
    assert await gateway.void("k-1") == Voided(None, None)


async def test_a_refund_goes_with_its_request(provider: Provider, gateway: HttpGateway) -> None:
    provider.says(201, refund_id="re_1")
    assert await gateway.refund("r-1", "ch_1", EUR_20) == Refunded("re_1")
    assert b'"refund_request_id":"r-1"' in provider.asked[0].content


async def test_a_refund_that_is_refused_is_for_good(provider: Provider, gateway: HttpGateway) -> None:
    provider.says(409, code="exceeds_captured", sentence="Too much.")
    with pytest.raises(Permanent, match=r"exceeds_captured.*Too much"):
        await gateway.refund("r-1", "ch_1", EUR_20)


async def test_a_call_that_failed_does_not_spoil_the_next(provider: Provider, gateway: HttpGateway) -> None:
    provider.raises(httpx.ReadTimeout("slow"))
    with pytest.raises(Transient):
        await charge(gateway)
    provider.says(201, charge_id="ch_1")
    assert await charge(gateway) == Charged("ch_1")
    assert len(gateway._idle) == 1


async def test_a_refused_request_says_with_which_status_and_code(provider: Provider, gateway: HttpGateway) -> None:
    provider.says(409, code="in_flight", sentence="Wait.")
    with pytest.raises(RequestRefused) as refused:
        await charge(gateway)
    assert (refused.value.status, refused.value.code) == (409, "in_flight")


async def test_a_request_that_never_left_is_told_from_one_that_was_turned_away(
    provider: Provider, gateway: HttpGateway
) -> None:
    provider.raises(httpx.ConnectError("refused"))
    with pytest.raises(NotReached):
        await charge(gateway)
    provider.says(503)
    with pytest.raises(DependencyDown) as away:
        await charge(gateway)
    assert not isinstance(away.value, NotReached)
