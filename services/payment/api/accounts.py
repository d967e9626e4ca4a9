"""Accounts of a tenant: opened by their name, read with their balance and their lines in the ledger; and transfers
between two of them. No provider is asked for those: claim, move and answer are one transaction."""

from datetime import UTC, datetime
from http import HTTPStatus
from typing import Annotated
from uuid import uuid4

from fastapi import APIRouter, Path, Query, Request
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from services.ledger import Ledger, Move, UnknownAccount
from services.payment.api.access import tenant_in
from services.payment.api.bookkeeping import account_of, made, move, moving
from services.payment.api.models import (
    ACCOUNT_NAME,
    Account,
    AccountAsked,
    LedgerLine,
    LedgerLines,
    Transfer,
    TransferAsked,
)
from services.payment.api.operation import (
    ONE_PROBLEMS,
    OPEN_PROBLEMS,
    READ_PROBLEMS,
    WRITE_PROBLEMS,
    JsonRoute,
    with_key,
)
from surefoot.events import Money
from surefoot.events.money import CurrencyMismatch, InvalidMoney
from surefoot.http.problems import Problem
from surefoot.idempotency import Idempotent, idempotent

MOST_LINES = 500
Name = Annotated[str, Path(pattern=ACCOUNT_NAME)]
_ACCOUNT = text("SELECT balance, cap, currency FROM ledger.accounts WHERE account_id = :account_id")


def account_routes(engine: AsyncEngine) -> APIRouter:
    router, ledger = APIRouter(route_class=JsonRoute, tags=["accounts"]), Ledger(engine)

    async def shown(tenant: str, name: str) -> Account:
        async with engine.connect() as connection:
            found = await connection.execute(_ACCOUNT, {"account_id": account_of(tenant, name)})
        row = found.one_or_none()
        if row is None:
            raise _unknown()
        cap = None if row.cap is None else Money.minor(row.cap, row.currency)
        return Account(id=name, balance=Money.minor(row.balance, row.currency), cap=cap)

    @router.put("/v1/accounts/{name}", responses=OPEN_PROBLEMS)
    async def open_account(name: Name, asked: AccountAsked, request: Request) -> Account:
        """Open an account with nothing in it. Opening it again changes nothing, so it needs no Idempotency-Key.

        `main-EUR` and so on are opened by the first charge in their currency."""
        tenant = tenant_in(request.scope)
        try:
            await ledger.open(account_of(tenant, name), asked.currency, cap=asked.cap)
        except CurrencyMismatch as error:
            sentence = "The account is there already in another currency, or its cap is in another one."
            raise Problem(HTTPStatus.CONFLICT, "wrong_currency", sentence) from error
        except InvalidMoney as error:
            raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "does_not_fit", str(error)) from error
        return await shown(tenant, name)

    @router.get("/v1/accounts/{name}", responses=READ_PROBLEMS | ONE_PROBLEMS)
    async def show_account(name: Name, request: Request) -> Account:
        """What is in an account."""
        return await shown(tenant_in(request.scope), name)

    @router.get("/v1/accounts/{name}/lines", responses=READ_PROBLEMS | ONE_PROBLEMS)
    async def show_lines(
        name: Name, request: Request, limit: Annotated[int, Query(ge=1, le=MOST_LINES)] = 100
    ) -> LedgerLines:
        """What came, what went, and what was there afterwards."""
        try:
            lines = await ledger.statement_of(account_of(tenant_in(request.scope), name), limit=limit)
        except UnknownAccount as error:
            raise _unknown() from error
        return LedgerLines(
            lines=tuple(
                LedgerLine(
                    number=line.number,
                    operation=line.operation_id,
                    change=line.change,
                    balance=line.balance or Money.minor(0, line.change.currency),
                    at=line.at,
                )
                for line in lines
            )
        )

    return router


def _unknown() -> Problem:
    return Problem(HTTPStatus.NOT_FOUND, "unknown", "You have no such account: open it first.")


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
