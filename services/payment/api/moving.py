"""What a move of money that cannot be made is answered with."""

from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import assert_never

from services.ledger import AccountFrozen, Done, Outcome, UnknownAccount
from services.payment.api.problems import Problem
from surefoot.events.money import CurrencyMismatch


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
