"""Charges and refunds in the ledger, each as one move between the tenant's account and the world outside.

The move belongs to the step of the charge and is made in its transaction, by whoever makes the step: the gateway's
inline answer, or its webhook. Its operation id is that of the charge or the refund, so that it is made once.

`moving`, `booking` and `made` are what a move that cannot be made is answered with.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import assert_never

import structlog
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from services.ledger import (
    AccountFrozen,
    Done,
    Move,
    Outcome,
    Refused,
    UnknownAccount,
    make,
    make_patiently,
    statements,
)
from services.ledger.moves import execute
from services.payment.api import books
from services.payment.api.books import NewRefund
from services.payment.charge_news import Known, Moved
from surefoot.errors import SurefootError
from surefoot.events import Money
from surefoot.events.money import CurrencyMismatch
from surefoot.http.problems import Problem

log = structlog.get_logger("surefoot.payments_api")
RETRY_AFTER_S = 2
# Longer than the database takes to find a deadlock (1 s). It is tried four times.
_LIMIT_LOCKS = text("SELECT set_config('lock_timeout', '1500ms', true)")


class NotBooked(SurefootError):
    """What was done at the provider could not be put into the ledger: it is tried again."""


def account_of(tenant: str, name: str) -> str:
    """What the ledger calls a tenant's account. No tenant has a slash in its name."""
    return f"{tenant}/{name}"


def main_name(currency: str) -> str:
    """The account that a tenant's charges in this currency go to; it is there from the first of them on."""
    return f"main-{currency}"


async def open_main(session: AsyncSession, tenant: str, currency: str) -> None:
    account_id = account_of(tenant, main_name(currency))
    # Looked for first: opening it once more would lock it, and all charges of the tenant would take turns.
    found = (await execute(session, statements.balance(account_id))).one_or_none()
    if found is None:
        await execute(session, statements.open_account(account_id, currency, None))
    elif found.frozen:  # and so no money is taken that could not be booked
        raise AccountFrozen(f"The account {account_id} is frozen: nothing is charged until it is released.")


async def book(session: AsyncSession, moved: Moved) -> None:
    """What belongs to a step of a charge: given to `move_forward` and to the webhooks as `after`."""
    if moved.news.to not in ("CAPTURED", "REFUNDED"):
        return
    charge = moved.charge
    # Also where its refund was heard of first: what comes back has been there.
    outcome = await make(session, Move(charge.charge_id, None, _main(charge), charge.amount))
    if isinstance(outcome, Refused):
        raise NotBooked(f"Charge {charge.charge_id} cannot be booked: {outcome.reason}.")
    if moved.news.to == "REFUNDED":
        await _book_refund_elsewhere(session, charge)


async def move(session: AsyncSession, asked: Move) -> Outcome:
    """Make a move that somebody waits for: an account that others hold on to is not waited for without an end."""
    await session.execute(_LIMIT_LOCKS)
    return await make_patiently(session, asked)


async def take_back(session: AsyncSession, refund_id: str, charge: Known, amount: Money) -> Outcome:
    """When a refund begins, before the provider is asked: what is to be given back cannot be moved elsewhere then."""
    return await move(session, Move(refund_id, _main(charge), None, amount))


async def return_refused(session: AsyncSession, refund_id: str, charge: Known, amount: Money) -> None:
    """The provider did not give it back after all."""
    outcome = await make(session, Move(f"{refund_id}:refused", None, _main(charge), amount))
    if isinstance(outcome, Refused):
        raise NotBooked(f"Refund {refund_id} was refused and cannot be booked back: {outcome.reason}.")


@contextmanager
def moving() -> Iterator[None]:
    """Around a move: what no money that comes or goes would help with is the request's own mistake."""
    try:
        yield
    except UnknownAccount as error:
        raise Problem(HTTPStatus.NOT_FOUND, "unknown", "You have no such account: open it first.") from error
    except CurrencyMismatch as error:
        sentence = "One of the accounts is in another currency."
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "wrong_currency", sentence) from error
    except AccountFrozen as error:
        sentence = "One of the accounts is frozen: nothing is changed until it is released."
        raise Problem(HTTPStatus.CONFLICT, "frozen", sentence) from error


@contextmanager
def booking(**what: str) -> Iterator[None]:
    """Around what follows the provider's answer: an account that was frozen since it was asked is waited for."""
    try:
        yield
    except AccountFrozen as error:
        raise Problem(
            HTTPStatus.SERVICE_UNAVAILABLE,
            "frozen",
            "The provider was asked, and the account was frozen meanwhile: its answer is booked when the account is "
            "released. Send the same request with the same Idempotency-Key to learn of it.",
            retry_after_s=RETRY_AFTER_S,
            **what,
        ) from error


def made(outcome: Outcome) -> Done:
    """The move, if it was made; raises the problem otherwise."""
    if isinstance(outcome, Done):
        return outcome
    match outcome.reason:
        case "INSUFFICIENT":
            raise Problem(HTTPStatus.CONFLICT, "INSUFFICIENT", "The account that gives has less than that.")
        case "CAP_EXCEEDED":
            raise Problem(HTTPStatus.CONFLICT, "CAP_EXCEEDED", "The account that gets would hold more than it may.")
        case "CONFLICT" | "THROTTLED":
            raise Problem(
                HTTPStatus.SERVICE_UNAVAILABLE,
                outcome.reason,
                "Too many others change the same accounts at once, and nothing was moved. Send the same request again "
                "with the same Idempotency-Key.",
                retry_after_s=1,
            )
        case _:
            assert_never(outcome.reason)


async def _book_refund_elsewhere(session: AsyncSession, charge: Known) -> None:
    """What was given back without us, by somebody at the provider's own desk. What was asked for here is booked."""
    begun = (await books.sums(session, charge.charge_id)).begun
    missing = charge.refunded.minor_units - begun
    if missing <= 0:
        return
    refund_id = f"{charge.charge_id}:elsewhere:{charge.refunded.minor_units}"
    amount = Money.minor(missing, charge.amount.currency)
    await books.write_refund(session, NewRefund(refund_id, charge.charge_id, charge.tenant, amount), "REFUNDED")
    if isinstance(await make(session, Move(refund_id, _main(charge), None, amount)), Refused):
        log.error(
            "money was given back at the provider, and the tenant's account does not have it",
            charge_id=charge.charge_id,
            tenant=charge.tenant,
            amount=str(amount),
        )


def _main(charge: Known) -> str:
    return account_of(charge.tenant, main_name(charge.amount.currency))
