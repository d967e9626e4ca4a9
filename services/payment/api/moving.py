"""What a move of money that cannot be made is answered with."""

from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import assert_never

from services.ledger import AccountFrozen, Done, Outcome, UnknownAccount
from surefoot.events.money import CurrencyMismatch
from surefoot.http.problems import Problem

RETRY_AFTER_S = 2


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
