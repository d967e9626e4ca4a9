"""`POST /v1/refunds`: all or a part of a charge is given back, once for each key, and never more than was taken.

What is to be given back leaves the tenant's account when the refund begins, so that it is there when the provider has
paid it out; if the provider refuses, it comes back.
"""

from datetime import UTC, datetime
from http import HTTPStatus
from typing import Annotated
from uuid import uuid4

from fastapi import APIRouter, Path, Request
from sqlalchemy.ext.asyncio import AsyncEngine

from services.payment.api import books
from services.payment.api.access import tenant_in
from services.payment.api.asking import GivenBack, give_back
from services.payment.api.bookkeeping import RETRY_AFTER_S, book, booking, made, moving, return_refused, take_back
from services.payment.api.books import NewRefund, Sums
from services.payment.api.models import Refund, RefundAsked
from services.payment.api.operation import (
    ONE_PROBLEMS,
    OUTSIDE_PROBLEMS,
    READ_PROBLEMS,
    WRITE_PROBLEMS,
    JsonRoute,
    with_key,
)
from services.payment.charge_news import Known, News
from services.payment.charge_states import move_forward
from services.payment.gateway import Gateway
from surefoot.events import Money
from surefoot.http.problems import Problem
from surefoot.idempotency import Idempotent, Tx, idempotent


def refund_routes(gateway: Gateway, engine: AsyncEngine) -> APIRouter:
    router = APIRouter(route_class=JsonRoute, tags=["refunds"])

    @router.post(
        "/v1/refunds",
        status_code=HTTPStatus.CREATED,
        responses=WRITE_PROBLEMS | OUTSIDE_PROBLEMS | ONE_PROBLEMS,
        openapi_extra=with_key(),
    )
    @idempotent(key="required", effect="outside")
    async def create_refund(asked: RefundAsked, request: Idempotent) -> Refund:
        """Give back all or a part of a charge."""
        minted = request.mint(id=new_refund_id, created_at=now)
        refund = NewRefund(minted.id, asked.charge_id, request.tenant, asked.amount, minted.created_at)
        gateway_txn_id = await request.phase("refund_created", write_down, refund)

        async def ask(*, key: str) -> GivenBack:
            sure = request.attempt == 1
            return await give_back(gateway, refund.refund_id, gateway_txn_id, refund.amount, sure=sure, key=key)

        given_back = await request.call("refund", ask)
        if given_back.outcome == "never_left":
            raise _provider_away(refund.refund_id)
        with booking(refund_id=refund.refund_id):
            return told(await request.phase("finished", finish, refund, given_back))

    @router.get("/v1/refunds/{refund_id}", responses=READ_PROBLEMS | ONE_PROBLEMS)
    async def show_refund(refund_id: Annotated[str, Path(max_length=128)], request: Request) -> Refund:
        """How a refund stands: PENDING while nobody knows yet what the provider did."""
        async with engine.connect() as connection:
            found = await books.find_refund(connection, tenant_in(request.scope), refund_id)
        if found is None:
            raise Problem(HTTPStatus.NOT_FOUND, "unknown", "There is no such refund of yours: look at the id.")
        return found

    return router


async def write_down(tx: Tx, refund: NewRefund) -> str:
    """The provider's name for the charge, if so much of it can be given back."""
    charge = await books.lock_charge(tx.session, refund.tenant, refund.charge_id)
    if charge is None:
        raise Problem(HTTPStatus.NOT_FOUND, "unknown", "There is no such charge of yours: look at charge_id.")
    txn_id = refundable(charge, await books.sums(tx.session, charge.charge_id), refund.amount)
    await books.write_refund(tx.session, refund, "PENDING")
    with moving():
        made(await take_back(tx.session, refund.refund_id, charge, refund.amount))
    return txn_id


def refundable(charge: Known, sums: Sums, amount: Money) -> str:
    """The provider's name for the charge; raises the problem, if so much of it cannot be given back."""
    if charge.status not in ("CAPTURED", "REFUNDED") or charge.gateway_txn_id is None:
        raise Problem(
            HTTPStatus.CONFLICT,
            "not_captured",
            f"The charge is {charge.status}: only what was captured can be given back.",
            charge_id=charge.charge_id,
        )
    if amount.currency != charge.amount.currency:
        raise Problem(
            HTTPStatus.UNPROCESSABLE_ENTITY,
            "wrong_currency",
            f"The charge is in {charge.amount.currency}, and is given back in that.",
        )
    # Those under way count as well. The provider may know of more than we asked for, and the other way round.
    left = charge.amount.minor_units - max(charge.refunded.minor_units, sums.begun)
    if amount.minor_units > left:
        raise Problem(
            HTTPStatus.CONFLICT,
            "exceeds_captured",
            f"{Money.minor(left, charge.amount.currency)} of this charge is left to be given back, and {amount} is "
            "more.",
            charge_id=charge.charge_id,
            left={"minor_units": left, "currency": charge.amount.currency},
        )
    return charge.gateway_txn_id


async def finish(tx: Tx, refund: NewRefund, given_back: GivenBack) -> Refund:
    charge = await books.lock_charge(tx.session, refund.tenant, refund.charge_id)
    assert charge is not None, "it was there in the phase before, and charges stay"
    if given_back.outcome == "refunded":
        await books.settle_refund(
            tx.session, refund.refund_id, "REFUNDED", gateway_refund_id=given_back.gateway_refund_id
        )
        total = (await books.sums(tx.session, charge.charge_id)).done
        # A webhook may have said as much, or more, before: then this is late, and nothing is told twice.
        news = News("REFUNDED", amount=Money.minor(total, charge.amount.currency))
        await move_forward(tx.session, charge.charge_id, news, publish=tx.publish, after=book)
    else:
        await books.settle_refund(tx.session, refund.refund_id, "REFUSED", reason=given_back.reason)
        await return_refused(tx.session, refund.refund_id, charge, refund.amount)
    found = await books.find_refund(tx.session, refund.tenant, refund.refund_id)
    assert found is not None, "it was written down in the phase before"
    return found


def told(refund: Refund) -> Refund:
    if refund.status == "REFUSED":
        raise Problem(
            HTTPStatus.CONFLICT,
            "refused",
            f"The provider does not give this back ({refund.reason}), and nothing was. With this Idempotency-Key the "
            "answer stays the same.",
            code=refund.reason,
            refund_id=refund.id,
        )
    return refund


def _provider_away(refund_id: str) -> Problem:
    return Problem(
        HTTPStatus.SERVICE_UNAVAILABLE,
        "provider_away",
        "The payment provider cannot be reached, and nothing was given back so far. It is tried again: send the same "
        "request with the same Idempotency-Key to learn of it. With another key it might happen twice.",
        retry_after_s=RETRY_AFTER_S,
        refund_id=refund_id,
    )


def new_refund_id() -> str:
    return f"re_{uuid4().hex}"


def now() -> datetime:
    return datetime.now(UTC)
