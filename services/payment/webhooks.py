"""`POST /webhooks/payment`: what the gateway has to say of charges.

Signature and age are looked at before anything else is read. Then the event is one transaction: its marker, the step of
its charge, the news in the outbox. Whatever goes wrong leaves nothing behind, so the gateway's resend does it all.

    app.include_router(webhook_router(engine, WebhookSettings()))
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, Literal, assert_never

import structlog
from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response
from prometheus_client import Counter
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession
from starlette.requests import ClientDisconnect

from services.payment.api.operation import described
from services.payment.charge_states import Outcome, take
from services.payment.charge_step import After
from services.payment.payment_events import Body, Foreign, PaymentEvent, Unreadable, event_of
from services.payment.settings import WebhookSettings
from surefoot.errors import SurefootError, words_of
from surefoot.failpoints import failpoint
from surefoot.http.problems import Problem
from surefoot.webhooks import Rejected, verify

log = structlog.get_logger("surefoot.payment_webhooks")
WEBHOOKS = Counter(
    "surefoot_payment_webhooks_total",
    "Webhooks of the gateway, by what became of them, or by why they were refused.",
    ["outcome"],
)
for _outcome in ("failed", "wrong_signature"):
    WEBHOOKS.labels(_outcome)  # from the start, at 0: rules watch them
PATH = "/webhooks/payment"
MOST_BYTES = 256 * 1024
RETRY_AFTER_S = 5
# Nobody waits longer than this for another who is at the same charge, and none of ours holds the others up for longer.
_LIMITS = text("""
    SELECT set_config('lock_timeout', '5s', true), set_config('idle_in_transaction_session_timeout', '10s', true)
""")
_FAILED = (
    "The webhook could not be written down, and nothing of it was kept: send it again. The service's log has the "
    "details."
)
_PROBLEMS = {
    400: "The signature or the body cannot be used; the sentence says why. Nothing was kept.",
    413: f"The body is larger than {MOST_BYTES // 1024} KiB.",
    503: "It could not be written down now, and nothing of it was kept: send it again.",
}
Clock = Callable[[], datetime]


class Receipt(BaseModel):
    """Said to the gateway, which need not send this event again."""

    model_config = ConfigDict(frozen=True)

    event_id: str
    outcome: Outcome | Literal["ignored"] = Field(
        description="applied: the charge is further by it. late: it was as far already. duplicate: known. unmatched: "
        "kept until its charge appears. contradicted: kept for people. ignored: a kind that is nothing to us."
    )


def webhook_router(
    engine: AsyncEngine, settings: WebhookSettings, *, after: After | None = None, clock: Clock | None = None
) -> APIRouter:
    """`after`: what else belongs to a charge's step, in the same transaction; the same as `move_forward` is given."""
    keys, now = settings.keys(), clock or _now
    router = APIRouter()

    @router.post(
        PATH,
        response_model=Receipt,
        responses=described(_PROBLEMS),
        openapi_extra={"requestBody": _described_body()},
        summary="An event of the payment gateway, signed",
    )
    async def receive(request: Request) -> Response:
        raw = await _body(request)
        if isinstance(raw, Response):
            return raw
        verified = verify(settings.scheme, request.headers.raw, raw, keys, now())
        if isinstance(verified, Rejected):
            log.warning("a webhook was refused", reason=verified.reason, gateway=settings.gateway)
            return _refused(HTTPStatus.BAD_REQUEST, verified.reason, verified.sentence)
        event = event_of(settings.gateway, raw)
        match event:
            case Unreadable():
                log.warning("a signed webhook cannot be used", sentence=event.sentence, gateway=settings.gateway)
                return _refused(HTTPStatus.BAD_REQUEST, "does_not_fit", event.sentence)
            case Foreign():
                return _received(Receipt(event_id=event.event_id, outcome="ignored"))
            case PaymentEvent():
                return await _taken(engine, event, after)
            case _:
                assert_never(event)

    return router


async def _taken(engine: AsyncEngine, event: PaymentEvent, after: After | None) -> Response:
    try:
        async with AsyncSession(engine) as session, session.begin():
            await session.execute(_LIMITS)
            outcome = await take(session, event, after=after)
        await failpoint("payment_webhook.committed")
    except (SQLAlchemyError, OSError, SurefootError) as error:  # the last: what `after` could not do
        log.error("a webhook failed", event_id=event.event_id, gateway=event.gateway, error=words_of(error))
        headers = {"Retry-After": str(RETRY_AFTER_S)}
        return _refused(HTTPStatus.SERVICE_UNAVAILABLE, "failed", _FAILED, headers=headers)
    return _received(Receipt(event_id=event.event_id, outcome=outcome))


async def _body(request: Request) -> bytes | Response:
    """The bytes as they came: a signature is over those, and over no reading of them."""
    raw = bytearray()
    try:
        async for chunk in request.stream():
            raw += chunk
            if len(raw) > MOST_BYTES:
                sentence = f"The webhook's body is larger than {MOST_BYTES // 1024} KiB, which no event of ours is."
                return _refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too_large", sentence)
    except ClientDisconnect:
        return _refused(HTTPStatus.BAD_REQUEST, "cut_off", "The webhook's body did not come to its end.")
    return bytes(raw)


def _received(receipt: Receipt) -> JSONResponse:
    WEBHOOKS.labels(receipt.outcome).inc()
    return JSONResponse(receipt.model_dump())


def _refused(status: HTTPStatus, reason: str, sentence: str, *, headers: Mapping[str, str] | None = None) -> Response:
    WEBHOOKS.labels(reason).inc()
    return Problem(status, reason, sentence).with_headers(headers).response()


def _described_body() -> dict[str, Any]:
    schema = Body.model_json_schema()
    schema["properties"]["data"] = schema.pop("$defs")["Data"]  # a reference would be to a place in the whole document
    return {"required": True, "content": {"application/json": {"schema": schema}}}


def _now() -> datetime:
    return datetime.now(UTC)
