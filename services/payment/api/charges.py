"""`POST /v1/charges`: money is taken once for each Idempotency-Key, whatever dies on the way.

The charge is written down, the provider is asked under the key of the claim, and what it answers moves the charge
forward, with its line in the ledger and the news of it, unless a webhook was faster.
"""

from datetime import UTC, datetime
from http import HTTPStatus
from typing import Annotated, assert_never
from uuid import uuid4

import structlog
from fastapi import APIRouter, Path, Request
from sqlalchemy.ext.asyncio import AsyncEngine

from services.payment.api import books
from services.payment.api.access import tenant_in
from services.payment.api.asking import Captured, capture
from services.payment.api.bookkeeping import RETRY_AFTER_S, book, booking, moving, open_main
from services.payment.api.books import NewCharge
from services.payment.api.models import Charge, ChargeAsked
from services.payment.api.operation import (
    ONE_PROBLEMS,
    OUTSIDE_PROBLEMS,
    READ_PROBLEMS,
    WRITE_PROBLEMS,
    JsonRoute,
    with_key,
)
from services.payment.charge_news import Contradicted, News
from services.payment.charge_states import CONTRADICTIONS, apply_kept, move_forward
from services.payment.gateway import Gateway
from surefoot.http.problems import Problem
from surefoot.idempotency import Idempotent, Tx, idempotent

log = structlog.get_logger("surefoot.payments_api")


def charge_routes(gateway: Gateway, engine: AsyncEngine) -> APIRouter:
    router = APIRouter(route_class=JsonRoute, tags=["charges"])

    @router.post(
        "/v1/charges",
        status_code=HTTPStatus.CREATED,
        responses=WRITE_PROBLEMS | OUTSIDE_PROBLEMS,
        openapi_extra=with_key(),
    )
    @idempotent(key="required", effect="outside")
    async def create_charge(asked: ChargeAsked, request: Idempotent) -> Charge:
        """Take money."""
        minted = request.mint(id=new_charge_id, created_at=now)
        charge = NewCharge(
            charge_id=minted.id,
            tenant=request.tenant,
            amount=asked.amount,
            description=asked.description,
            gateway=gateway.name,
            provider_key=await request.provider_key("capture"),
            created_at=minted.created_at,
        )
        with moving():
            await request.phase("charge_created", write_down, charge)

        async def ask(*, key: str) -> Captured:
            return await capture(gateway, charge.charge_id, charge.amount, sure=request.attempt == 1, key=key)

        captured = await request.call("capture", ask)
        if captured.outcome == "never_left":
            raise _provider_away(charge.charge_id)
        with booking(charge_id=charge.charge_id):
            return told(await request.phase("finished", finish, charge, captured))

    @router.get("/v1/charges/{charge_id}", responses=READ_PROBLEMS | ONE_PROBLEMS)
    async def show_charge(charge_id: Annotated[str, Path(max_length=64)], request: Request) -> Charge:
        """How a charge stands: PENDING while nobody knows yet what the provider did."""
        async with engine.connect() as connection:
            found = await books.find_charge(connection, tenant_in(request.scope), charge_id)
        if found is None:
            raise Problem(HTTPStatus.NOT_FOUND, "unknown", "There is no such charge of yours: look at the id.")
        return found

    return router


async def write_down(tx: Tx, charge: NewCharge) -> None:
    """Before the provider is asked: PENDING, and the account that its money goes to is there. What a webhook said of it
    before is applied."""
    await books.begin_charge(tx.session, charge)
    await open_main(tx.session, charge.tenant, charge.amount.currency)
    await apply_kept(tx.session, charge.charge_id, publish=tx.publish, after=book)


async def finish(tx: Tx, charge: NewCharge, captured: Captured) -> Charge:
    """What the provider answered, in the books. A webhook may have told it before: then it is as that says."""
    moved = await move_forward(tx.session, charge.charge_id, news_of(captured), publish=tx.publish, after=book)
    if isinstance(moved, Contradicted):
        CONTRADICTIONS.labels("answer").inc()
        log.error("the provider's answer contradicts the books", charge_id=charge.charge_id, sentence=moved.sentence)
    found = await books.find_charge(tx.session, charge.tenant, charge.charge_id)
    assert found is not None, "it was written down in the phase before"
    return found


def news_of(captured: Captured) -> News:
    match captured.outcome:
        case "charged":
            return News("CAPTURED", gateway_txn_id=captured.gateway_txn_id)
        case "declined":
            return News("DECLINED", reason=captured.reason)
        case "rejected":
            return News("DECLINED", reason="provider_error")
        case "barred":
            return News("VOIDED", reason=captured.reason)
        case "never_left":
            raise AssertionError("what never left is no news")
        case _:
            assert_never(captured.outcome)


def told(charge: Charge) -> Charge:
    """The charge as the answer; or the problem that it ended with."""
    match charge.status:
        case "DECLINED":
            raise Problem(
                HTTPStatus.PAYMENT_REQUIRED,
                "declined",
                f"The charge was declined ({charge.reason}), and no money was taken. With this Idempotency-Key the "
                "answer stays the same: send a new key to try again.",
                code=charge.reason,
                charge_id=charge.id,
            )
        case "VOIDED":
            raise Problem(
                HTTPStatus.CONFLICT,
                "voided",
                "The charge was voided before it was made, and no money was taken. With this Idempotency-Key none will "
                "be: send a new key to try again.",
                charge_id=charge.id,
            )
        case "PENDING" | "AUTHORIZED" | "CAPTURED" | "REFUNDED":
            return charge
        case _:
            assert_never(charge.status)


def _provider_away(charge_id: str) -> Problem:
    return Problem(
        HTTPStatus.SERVICE_UNAVAILABLE,
        "provider_away",
        "The payment provider cannot be reached, and no money was taken so far. It is tried again: send the same "
        "request with the same Idempotency-Key to learn of it. With another key it might happen twice.",
        retry_after_s=RETRY_AFTER_S,
        charge_id=charge_id,
    )


def new_charge_id() -> str:
    return f"ch_{uuid4().hex}"


def now() -> datetime:
    return datetime.now(UTC)
