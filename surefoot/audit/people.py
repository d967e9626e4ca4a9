"""Who does something, and what they may do. Roles rise: each may do what those before it may."""

from dataclasses import dataclass
from typing import Literal, get_args

Role = Literal["VIEWER", "OPERATOR", "ADMIN", "SUPER_ADMIN"]
ROLES: tuple[Role, ...] = get_args(Role)


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody whose token was accepted. The name is what decisions are kept under."""

    name: str
    role: Role

    def may(self, needed: Role) -> bool:
        return ROLES.index(self.role) >= ROLES.index(needed)


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
