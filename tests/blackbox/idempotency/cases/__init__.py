"""All cases, in the order in which they are told."""

from tests.blackbox.idempotency.case import CASES
from tests.blackbox.idempotency.cases import (
    failing,
    fingerprint,
    keys,
    leaving,
    mismatch,
    problems,
    replays,
    routes,
    storing,
    together,
    windows,
)

__all__ = [
    "CASES",
    "failing",
    "fingerprint",
    "keys",
    "leaving",
    "mismatch",
    "problems",
    "replays",
    "routes",
    "storing",
    "together",
    "windows",
]
