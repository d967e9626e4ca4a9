"""Where idempotency keys are kept: claims, their phases and answers, and the history of all of it."""

from surefoot.idempotency.store.claims import Begun, FirstPhase, PhaseUnit, Unclaimed
from surefoot.idempotency.store.seals import Verified
from surefoot.idempotency.store.store import Standing, Store
from surefoot.idempotency.store.transaction import Tx

__all__ = ["Begun", "FirstPhase", "PhaseUnit", "Standing", "Store", "Tx", "Unclaimed", "Verified"]
