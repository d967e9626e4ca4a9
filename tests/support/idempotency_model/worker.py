"""One attempt at a request, in one of several processes: it can be stopped between any two of its steps."""

from dataclasses import dataclass, field
from typing import Any, Literal

from surefoot.idempotency.values import Claim

Ending = Literal["well", "error", "refusal", "come_again"]
"""What the handler comes to, if nothing else happens: an answer, a 5xx, a 4xx that is stored, a 429 that is not."""
ENDINGS: tuple[Ending, ...] = ("well", "error", "refusal", "come_again")
OUTSIDE = ("keep", "created", "call", "finished", "end")
LOCAL = ("work", "finish")


@dataclass
class Worker:
    number: int
    life: int
    """Which life of the key it works on, by the reference's count."""
    claim: Claim
    begun: Any | None
    """Its open transaction, until that is kept or finished."""
    ending: Ending
    steps: list[str] = field(default_factory=list)
    """Those that are left."""
    resumes: bool = False
    asleep: bool = False
    """Its process is frozen: it does nothing until it is woken, and knows nothing of what has happened meanwhile."""
    committed: bool = False
    """Whether it has committed a phase."""
    said: str | None = None
    """What the provider has said to it."""

    @property
    def has_transaction(self) -> bool:
        return self.begun is not None
