"""`POST /v1/transfers`: money between two accounts of a tenant. No provider is asked: claim, move and answer are one
transaction."""

from datetime import UTC, datetime
from http import HTTPStatus
from uuid import uuid4

from fastapi import APIRouter

from services.ledger import Move
from services.payment.api.bookkeeping import account_of, move
from services.payment.api.models import Transfer, TransferAsked
from services.payment.api.moving import made, moving
from services.payment.api.operation import ONE_PROBLEMS, WRITE_PROBLEMS, JsonRoute, with_key
from surefoot.http.problems import Problem
from surefoot.idempotency import Idempotent, idempotent


def transfer_routes() -> APIRouter:
    router = APIRouter(route_class=JsonRoute, tags=["transfers"])

    @router.post(
        "/v1/transfers",
        status_code=HTTPStatus.CREATED,
        responses=WRITE_PROBLEMS | ONE_PROBLEMS,
        openapi_extra=with_key(),
    )
    @idempotent(key="required", effect="local")
    async def create_transfer(asked: TransferAsked, request: Idempotent) -> Transfer:
        """Move money from one of your accounts to another."""
        transfer_id, at = f"tr_{uuid4().hex}", datetime.now(UTC)
        source, target = account_of(request.tenant, asked.source), account_of(request.tenant, asked.target)
        if source == target:
            raise Problem(
                HTTPStatus.UNPROCESSABLE_ENTITY, "same_account", "The account that gives and the one that gets are one."
            )
        with moving():
            outcome = await move(request.tx.session, Move(transfer_id, source, target, asked.amount))
        return Transfer(
            id=transfer_id,
            source=asked.source,
            target=asked.target,
            amount=asked.amount,
            balance=made(outcome).balance,
            created_at=at,
        )

    return router
