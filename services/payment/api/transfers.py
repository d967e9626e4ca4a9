"""`POST /v1/transfers`: money between two accounts of a tenant. No provider is asked: claim, move and answer are one
transaction."""

from datetime import UTC, datetime
from http import HTTPStatus
from uuid import uuid4

from fastapi import APIRouter

from services.ledger import AccountFrozen, Done, Move, UnknownAccount, make_patiently
from services.payment.api.bookkeeping import account_of
from services.payment.api.models import Transfer, TransferAsked
from services.payment.api.moving import refusal
from services.payment.api.operation import ONE_PROBLEMS, WRITE_PROBLEMS, JsonRoute, with_key
from services.payment.api.problems import Problem
from surefoot.events.money import CurrencyMismatch
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
        try:
            outcome = await make_patiently(request.tx.session, Move(transfer_id, source, target, asked.amount))
        except UnknownAccount as error:
            raise Problem(HTTPStatus.NOT_FOUND, "unknown", "You have no such account: open it first.") from error
        except CurrencyMismatch as error:
            raise Problem(
                HTTPStatus.UNPROCESSABLE_ENTITY, "wrong_currency", "One of the accounts is in another currency."
            ) from error
        except AccountFrozen as error:
            raise Problem(HTTPStatus.CONFLICT, "frozen", "One of the accounts is frozen.") from error
        if not isinstance(outcome, Done):
            raise refusal(outcome)
        return Transfer(
            id=transfer_id,
            source=asked.source,
            target=asked.target,
            amount=asked.amount,
            balance=outcome.balance,
            created_at=at,
        )

    return router
