"""What the simulated inspection finds. Pure: the same return always gets the same verdict."""

import hashlib
from dataclasses import dataclass

from schemas.warehouse import Verdict

REMARKS: dict[Verdict, str] = {
    "APPROVED": "As new.",
    "DAMAGED": "The packing is torn and the article scratched.",
    "REJECTED": "This is not the article that was sold.",
}


@dataclass(frozen=True, slots=True)
class Shares:
    """How many of a hundred returns are found damaged, and how many are not accepted. The rest is approved."""

    damaged: int
    rejected: int


def verdict_of(return_id: str, shares: Shares) -> Verdict:
    """By the hash of its id, so that a demo sees all three, and a repeat finds what the first look found."""
    drawn = int.from_bytes(hashlib.sha256(return_id.encode()).digest()[:4]) % 100
    if drawn < shares.damaged:
        return "DAMAGED"
    if drawn < shares.damaged + shares.rejected:
        return "REJECTED"
    return "APPROVED"
