"""What a move of money that was refused is answered with. Pure."""

from http import HTTPStatus
from typing import assert_never

from services.ledger import Refused
from services.payment.api.problems import Problem


def refusal(refused: Refused) -> Problem:
    match refused.reason:
        case "INSUFFICIENT":
            return Problem(HTTPStatus.CONFLICT, "INSUFFICIENT", "The account that gives has less than that.")
        case "CAP_EXCEEDED":
            return Problem(HTTPStatus.CONFLICT, "CAP_EXCEEDED", "The account that gets would hold more than it may.")
        case "CONFLICT" | "THROTTLED":
            return Problem(
                HTTPStatus.SERVICE_UNAVAILABLE,
                refused.reason,
                "Too many others change the same accounts at once, and nothing was moved. Send the same request again "
                "with the same Idempotency-Key.",
                retry_after_s=1,
            )
        case _:
            assert_never(refused.reason)
