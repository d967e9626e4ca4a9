"""Why somebody is not let in."""

from dataclasses import dataclass
from typing import Literal

RefusalReason = Literal[
    "no_token",
    "not_a_token",
    "unknown_token",
    "expired",
    "revoked",
    "no_role",
    "bad_signature",
    "wrong_audience",
    "wrong_issuer",
    "not_valid",
    "not_accepted",
    "keys_away",
]
"""In a word, for metrics and the audit log."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Not let in. The sentence never quotes the token."""

    reason: RefusalReason
    sentence: str
