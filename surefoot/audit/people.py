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
