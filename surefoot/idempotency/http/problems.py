"""What the layer itself answers, as application/problem+json (RFC 9457). Pure.

Each type is the address of a page that says more (see `problem_pages`).
"""

import math
from datetime import datetime
from typing import Any, Literal, assert_never

import orjson

from surefoot.idempotency.settings import IdempotencySettings
from surefoot.idempotency.values import Answer, Answered, Found, Gone, InFlight, Mismatch, Unknown

MEDIA_TYPE = "application/problem+json"
REPLAYED = ("x-idempotency-replayed", "true")
LONGEST_REST_S = 5
"""Whoever is told that it is in flight is asked to come back after so long at most: most work is done by then."""
STORE_REST_S = 2

ProblemName = Literal[
    "key-missing",
    "key-malformed",
    "key-reused",
    "in-flight",
    "key-expired",
    "outcome-unknown",
    "store-unavailable",
    "body-too-large",
    "answer-too-large",
    "failed",
]


class Problems:
    """Makes them, as the settings say."""

    def __init__(self, settings: IdempotencySettings) -> None:
        self._docs = settings.docs.rstrip("/")
        self._mismatch_status = settings.mismatch_status
        self._largest_body = settings.largest_body

    def found(self, found: Found) -> Answer:
        """The answer for what was found under a key."""
        match found:
            case Answered(answer):
                return replayed(answer)
            case InFlight(lease_s):
                return self.in_flight(lease_s)
            case Mismatch(first_at):
                return self.reused(first_at)
            case Gone(first_at):
                return self.expired(first_at)
            case Unknown(resource, _):
                return self.outcome_unknown(resource, LONGEST_REST_S)
            case _:
                assert_never(found)

    def missing(self) -> Answer:
        return self._made(
            "key-missing",
            400,
            "This request needs an Idempotency-Key header: send a new random key with each new request, and the same "
            "key with each retry of it.",
        )

    def malformed(self, sentence: str) -> Answer:
        return self._made("key-malformed", 400, sentence)

    def reused(self, first_at: datetime) -> Answer:
        return self._made(
            "key-reused",
            self._mismatch_status,
            "This Idempotency-Key was used for another request. Nothing was done: send a new key with a new request.",
            first_at=_time(first_at),
        )

    def in_flight(self, lease_s: float) -> Answer:
        rest_s = min(LONGEST_REST_S, max(1, math.ceil(lease_s)))
        return self._made(
            "in-flight",
            409,
            "A request with this Idempotency-Key is being worked on. Send the same request again in a little while to "
            "get its answer.",
            rest_s=rest_s,
        )

    def expired(self, first_at: datetime) -> Answer:
        return self._made(
            "key-expired",
            410,
            "The answer to this Idempotency-Key is kept no longer. Look whether what you asked for is there; to ask "
            "for it once more, send a new key.",
            first_at=_time(first_at),
        )

    def outcome_unknown(self, resource: str | None, rest_s: float) -> Answer:
        return self._made(
            "outcome-unknown",
            504,
            "A provider was called and did not say what it did. It is being found out: send the same request again "
            "with the same Idempotency-Key to learn of it. With another key it might happen twice.",
            rest_s=max(1, math.ceil(rest_s)),
            **_members(resource),
        )

    def store_unavailable(self) -> Answer:
        return self._made(
            "store-unavailable",
            503,
            "What keeps Idempotency-Keys does not answer, and without it this could happen twice. Send the same "
            "request again with the same key.",
            rest_s=STORE_REST_S,
        )

    def body_too_large(self) -> Answer:
        return self._made(
            "body-too-large",
            413,
            f"A request with an Idempotency-Key may have {self._largest_body} bytes. Nothing was done: ask for less at "
            "once.",
        )

    def answer_too_large(self, resource: str | None) -> Answer:
        return self._made(
            "answer-too-large",
            500,
            f"The answer has more than the {self._largest_body} bytes that are kept under an Idempotency-Key. This is "
            "an error of the service.",
            **_members(resource),
        )

    def failed(self) -> Answer:
        return self._made("failed", 500, "The work failed, by an error of the service.")

    def _made(
        self, name: ProblemName, status: int, detail: str, *, rest_s: int | None = None, **members: Any
    ) -> Answer:
        body = {
            "type": f"{self._docs}/{name}",
            "title": TITLES[name],
            "status": status,
            "detail": detail,
            **members,
        }
        headers = [("content-type", MEDIA_TYPE), ("cache-control", "no-store")]
        if rest_s is not None:
            headers.append(("retry-after", str(rest_s)))
        return Answer(status, tuple(headers), orjson.dumps(body))


TITLES: dict[ProblemName, str] = {
    "key-missing": "Idempotency-Key is missing",
    "key-malformed": "Idempotency-Key cannot be read",
    "key-reused": "Idempotency-Key was used for another request",
    "in-flight": "A request with this Idempotency-Key is in flight",
    "key-expired": "Idempotency-Key has expired",
    "outcome-unknown": "The outcome is not known yet",
    "store-unavailable": "Idempotency-Keys cannot be looked up",
    "body-too-large": "The request is too large",
    "answer-too-large": "The answer is too large to be kept",
    "failed": "The work failed",
}


def replayed(answer: Answer) -> Answer:
    return Answer(answer.status, (*answer.headers, REPLAYED), answer.body)


def _members(resource: str | None) -> dict[str, Any]:
    return {} if resource is None else {"resource": resource}


def _time(at: datetime) -> str:
    return at.isoformat()
