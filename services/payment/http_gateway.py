"""The gateway over HTTP: to the simulated provider, or to one that speaks as it does.

What it makes of the answers is the heart of it. Connected or not decides whether an attempt counts; a status of 5xx,
or no answer in time, says nothing about the money, so the same request is made again with the same key.
"""

import ssl
from datetime import timedelta
from typing import Any, get_args

import httpx
import orjson

from schemas.payment import FailureReason
from services.payment.gateway import Barred, Charged, Declined, NotReached, Refunded, RequestRefused, Voided
from services.payment.settings import PaymentSettings
from surefoot.consumer import DependencyDown, Transient
from surefoot.events import Money

NOT_REACHED = (httpx.ConnectError, httpx.ConnectTimeout)
"""The request never left, so nothing can have become of it."""
CONNECT_WITHIN = timedelta(seconds=2)
"""Longer than this, and the provider counts as away."""
NOT_LET_IN = (401, 403)
"""Says nothing about the one payment: it would be the same for all of them, until somebody mends it."""
REASONS: tuple[str, ...] = get_args(FailureReason)


class HttpGateway:
    name = "provider"

    def __init__(
        self, settings: PaymentSettings | None = None, *, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        """Settings of the environment, if left out; read when the first call is made. `transport`: another way to the
        provider than the network, for tests."""
        self._settings = settings
        self._transport = transport
        self._idle: list[httpx.AsyncClient] = []
        """A client for each call under way at once, with one connection each: a pool of httpx looks at all of its
        connections before each request, which with 32 of them takes longer than the request itself (measured)."""
        self._tls: ssl.SSLContext | None = None

    async def charge(self, key: str, order_id: str, amount: Money) -> Charged | Declined | Barred:
        body = {"order_id": order_id, "amount": _amount(amount)}
        answer = await self._post("/charges", body, {"Idempotency-Key": key})
        said = _said(answer)
        match answer.status_code, said.get("code"):
            case 200 | 201, _:
                return Charged(_text(said, "charge_id"))
            case 402, _:
                return Declined(_reason(said.get("reason")))
            case 409, "voided":
                return Barred()
            case _:
                raise _refused(answer, said)

    async def void(self, key: str) -> Voided:
        answer = await self._post("/charges/void", {"key": key})
        said = _said(answer)
        if answer.status_code != 200:
            raise _refused(answer, said)
        given_back = said.get("refunded")
        return Voided(
            said.get("charge_id"),
            None if given_back is None else Money.minor(given_back["minor_units"], given_back["currency"]),
        )

    async def refund(self, refund_request_id: str, charge_id: str, amount: Money) -> Refunded:
        body = {"charge_id": charge_id, "refund_request_id": refund_request_id, "amount": _amount(amount)}
        answer = await self._post("/refunds", body)
        said = _said(answer)
        if answer.status_code not in (200, 201):
            raise _refused(answer, said)
        return Refunded(_text(said, "refund_id"))

    async def close(self) -> None:
        while self._idle:
            await self._idle.pop().aclose()

    async def _post(self, path: str, body: dict[str, Any], headers: dict[str, str] | None = None) -> httpx.Response:
        client = self._idle.pop() if self._idle else self._opened()
        try:
            answer = await client.post(
                path, content=orjson.dumps(body), headers={"content-type": "application/json", **(headers or {})}
            )
        except NOT_REACHED as error:
            raise NotReached(f"The payment provider at {client.base_url} is not there: {_words(error)}.") from error
        except httpx.HTTPError as error:
            raise Transient(
                f"The payment provider at {client.base_url} gave no answer to {path}: {_words(error)}. It may have "
                "done what it was asked; it is asked again with the same key."
            ) from error
        finally:
            self._idle.append(client)
        if answer.status_code == 503:
            raise DependencyDown(f"The payment provider says that it is away (503 to {path}): {answer.text[:200]}")
        if answer.status_code in NOT_LET_IN:
            raise DependencyDown(
                f"The payment provider at {client.base_url} does not let us in ({answer.status_code} to {path}): "
                f"{answer.text[:200]} Mend the credentials, or the address; payments wait until then."
            )
        if answer.status_code >= 500 or answer.status_code == 429:
            raise Transient(f"The payment provider answered {answer.status_code} to {path}: {answer.text[:200]}")
        return answer

    def _opened(self) -> httpx.AsyncClient:
        settings = self._settings = self._settings or PaymentSettings()
        self._tls = self._tls or httpx.create_ssl_context()  # takes its time, and all can share it
        within_s, connect_s = settings.answer_within.total_seconds(), CONNECT_WITHIN.total_seconds()
        return httpx.AsyncClient(
            base_url=settings.provider_url,
            timeout=httpx.Timeout(within_s, connect=connect_s),
            limits=httpx.Limits(max_connections=1),
            verify=self._tls,
            transport=self._transport,
            trust_env=False,  # a proxy of the environment is not for this
        )


def _amount(money: Money) -> dict[str, Any]:
    return {"minor_units": money.minor_units, "currency": money.currency}


def _said(answer: httpx.Response) -> dict[str, Any]:
    try:
        said = orjson.loads(answer.content)
    except orjson.JSONDecodeError:
        said = None
    if not isinstance(said, dict):
        raise Transient(
            f"The payment provider answered {answer.status_code} to {answer.url.path} with something that is no JSON "
            "object. What it did is unknown; it is asked again with the same key."
        )
    return said


def _text(said: dict[str, Any], name: str) -> str:
    value = said.get(name)
    if not isinstance(value, str):
        raise Transient(f"The payment provider's answer has no {name}: it is asked again with the same key.")
    return value


def _reason(said: object) -> FailureReason:
    return said if said in REASONS else "declined"  # type: ignore[return-value]


def _refused(answer: httpx.Response, said: dict[str, Any]) -> RequestRefused:
    code = said.get("code")
    return RequestRefused(
        f"The payment provider refuses the request to {answer.url.path} ({answer.status_code} "
        f"{said.get('code', 'without a code')}): {said.get('sentence', '')}",
        status=answer.status_code,
        code=code if isinstance(code, str) else None,
    )


def _words(error: Exception) -> str:
    return str(error) or type(error).__name__
