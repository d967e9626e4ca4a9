"""The server that is looked at: where it is, who may ask, and how patient one has to be with it."""

from collections.abc import Mapping
from dataclasses import dataclass, field


def _bearer(token: str) -> Mapping[str, str]:
    return {"Authorization": f"Bearer {token}"}


@dataclass(frozen=True, slots=True)
class Target:
    base_url: str
    first: Mapping[str, str] = field(default_factory=lambda: _bearer("one"))
    """Headers of the tenant that asks, unless a case says otherwise."""
    second: Mapping[str, str] = field(default_factory=lambda: _bearer("two"))
    """Headers of another tenant."""
    expired: Mapping[str, str] = field(default_factory=lambda: _bearer("one-expired"))
    """Headers that belong to the first tenant and are no longer good: 401."""
    replay_header: str = "X-Idempotency-Replayed"
    mismatch_status: int = 422
    longest_wait_s: float = 5.0
    """How long it lets a request wait for another one with the same key before it says 409."""
    largest_body: int = 1024 * 1024
    """It takes bodies up to this size, and refuses those that are half as large again (413)."""
    patience_s: float = 20.0
    """How long a case waits for what must come."""
