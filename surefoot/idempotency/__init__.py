"""HTTP requests that take effect once: the key, the claim, the phases and the answer that is given again."""

from surefoot.idempotency.http.decorator import idempotent
from surefoot.idempotency.http.middleware import Idempotency
from surefoot.idempotency.request.idempotent import Idempotent
from surefoot.idempotency.request.work import resumed_tenant
from surefoot.idempotency.settings import IdempotencySettings
from surefoot.idempotency.store import Store, Tx
from surefoot.idempotency.upkeep.completer import Completer
from surefoot.idempotency.upkeep.housekeeping import Housekeeping
from surefoot.idempotency.values import FenceLost, OutcomeUnknown, PhaseMisuse, ProviderBusy, StoreAway

__all__ = [
    "Completer",
    "FenceLost",
    "Housekeeping",
    "Idempotency",
    "IdempotencySettings",
    "Idempotent",
    "OutcomeUnknown",
    "PhaseMisuse",
    "ProviderBusy",
    "Store",
    "StoreAway",
    "Tx",
    "idempotent",
    "resumed_tenant",
]
