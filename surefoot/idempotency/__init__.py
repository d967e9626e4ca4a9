"""HTTP requests that take effect once: the key, the claim, the phases and the answer that is given again."""

from surefoot.idempotency.completer import Completer
from surefoot.idempotency.decorator import idempotent
from surefoot.idempotency.errors import FenceLost, OutcomeUnknown, PhaseMisuse, ProviderBusy, StoreAway
from surefoot.idempotency.exchange import resumed_tenant
from surefoot.idempotency.housekeeping import Housekeeping
from surefoot.idempotency.idempotent import Idempotent
from surefoot.idempotency.middleware import Idempotency
from surefoot.idempotency.settings import IdempotencySettings
from surefoot.idempotency.store import Store, Tx

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
