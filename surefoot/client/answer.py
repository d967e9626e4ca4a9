"""What a server said in the end, or that it said nothing that lasts. Frozen; nothing is read from a network here."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from surefoot.errors import SurefootError

REPLAYED = "x-idempotency-replayed"
PROBLEM = "application/problem+json"


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    """By name, in small letters."""
    body: bytes
    key: str | None
    """What it was asked for under; None if it was only read."""
    attempts: int
    """How often it was sent."""

    @property
    def replayed(self) -> bool:
        """Whether the server had answered this key before, and did nothing this time."""
        return self.headers.get(REPLAYED, "").strip().lower() == "true"

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def problem(self) -> str | None:
        """The last word of the problem's type, such as `in-flight` or `key-reused`; None if it is no problem."""
        if self.headers.get("content-type", "").partition(";")[0].strip().lower() != PROBLEM:
            return None
        try:
            described = json.loads(self.body)
        except (ValueError, RecursionError):
            return None
        said = described.get("type") if isinstance(described, dict) else None
        return said.rstrip("/").rpartition("/")[2] if isinstance(said, str) else None


class GaveUp(SurefootError):
    """No answer that lasts within the client's patience. Whether the call took effect is not known.

    Asking again later with the same key is safe: `client.post(…, key=error.key)`.
    """

    def __init__(self, message: str, *, key: str | None, answer: Answer | None, attempts: int) -> None:
        super().__init__(message)
        self.key = key
        self.answer = answer
        """The last one there was; None if the server never answered."""
        self.attempts = attempts
