"""What the layer speaks of, as frozen values: what is asked for under a key, who may work on it, what was found, and
what can go wrong."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from surefoot.errors import SurefootError

State = Literal["IN_FLIGHT", "COMPLETED", "FAILED_RETRY", "FAILED_TERMINAL", "EXPIRED"]
Effect = Literal["local", "outside"]
What = Literal[
    "claimed",
    "taken_over",
    "phase",
    "called",
    "replied",
    "stored",
    "replayed",
    "failed",
    "forgotten",
    "refused",
    "expired",
    "exhausted",
]
"""What the history says has happened."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request, as far as the store needs to know it."""

    tenant: str
    key_hash: bytes
    route: str
    effect: Effect
    fingerprint: bytes
    fingerprint_version: int


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to work on a key, until the fence has risen."""

    asked: Asked
    fence: int
    attempt: int
    """1 for the first."""
    created_at: datetime
    """Of the first attempt, by the database's clock."""
    minted: Mapping[str, Any] = field(default_factory=dict)
    """Of an earlier attempt; empty in the first."""
    provider_key: str | None = None
    """None until it is kept; and for a local route."""
    phases: Mapping[str, Any] = field(default_factory=dict)
    """The results of those that an earlier attempt has committed, by name."""
    in_doubt: bool = False
    """An earlier attempt may have called a provider, and nobody knows what came of it: it said so (the row's
    outcome_unknown), or its lease ran out after it was kept, or it came no further. A refusal is no answer to such a
    request. A phase that was committed after the call ends the doubt: it rests on what the provider said."""
    unsettled: frozenset[str] = frozenset()
    """The calls that were made, and that no phase was committed after by whoever made them: until each has been made
    again, the doubt stays."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A response, as it is sent."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes


@dataclass(frozen=True, slots=True)
class StoredRequest:
    """What the completer needs to make the request again. Encrypted at rest."""

    method: str
    path: str
    query: str
    headers: tuple[tuple[str, str], ...]
    """Those the route needs (content-type, accept), never credentials."""
    body: bytes
    tenant: str


# -- what is found under a key, if it cannot be claimed ---------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Answered:
    """There is an answer: it is given again."""

    answer: Answer


@dataclass(frozen=True, slots=True)
class InFlight:
    """Somebody works on it."""

    lease_s: float
    """How long they have until they must say that they live; an estimate for whoever waits."""


@dataclass(frozen=True, slots=True)
class Mismatch:
    """The key was used for another request."""

    first_at: datetime


@dataclass(frozen=True, slots=True)
class Gone:
    """The answer is kept no longer, and the key is not new yet."""

    first_at: datetime


@dataclass(frozen=True, slots=True)
class Unknown:
    """It was tried as often as it may be, and nobody knows what became of it. People have been told."""

    resource: str | None
    attempts: int


Found = Answered | InFlight | Mismatch | Gone | Unknown


@dataclass(frozen=True, slots=True)
class Note:
    """A line of the history."""

    what: What
    details: Mapping[str, Any] = field(default_factory=dict)


# -- what can go wrong ------------------------------------------------------------------------------------------------


class FenceLost(SurefootError):
    """Somebody else has claimed the key since: nothing of this attempt was kept after that."""


class StoreAway(SurefootError):
    """The database that keeps the keys does not answer: nothing is known, and nothing may be begun."""


class OutcomeUnknown(SurefootError):
    """A provider was called and nobody knows what it did. The request is made again under the same provider key."""


class ProviderBusy(SurefootError):
    """The provider has a call under our key in flight already (its own 409)."""


class PhaseMisuse(SurefootError):
    """Phases and calls were used in a way that could not be resumed."""
