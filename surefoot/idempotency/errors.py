"""What can go wrong in the layer, and what a handler's calls raise."""

from surefoot.errors import SurefootError


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
