"""What a route says about its requests: whether they need a key, and what becomes of them. Frozen, checked at once."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from surefoot.errors import ConfigurationError
from surefoot.idempotency.values import Effect

KeyMode = Literal["off", "optional", "counted", "required"]
"""off: the header is not looked at. optional: with a key it is protected. counted: the same, and those without one
are counted, to see when it may be required. required: without a key it is refused."""
OnFailure = Literal["rerun", "replay"]
"""What a 5xx of the work means: the next request with the key tries again, or gets the 5xx again."""

LONGEST_WINDOW = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class Route:
    key: KeyMode = "required"
    effect: Effect = "local"
    on_failure: OnFailure = "rerun"
    replay_for: timedelta = timedelta(hours=24)
    """The answer is given again for so long after the first request."""
    gone_for: timedelta = timedelta(hours=24)
    """After that the key is refused for so long (410), then it is new."""
    attempts: int = 10
    """How often it is claimed before people are told."""
    fail_open: bool = False
    """Where the store is away: do the work without protection. Only for what may happen twice."""

    def __post_init__(self) -> None:
        windows = self.replay_for + self.gone_for
        if self.replay_for <= timedelta(0) or self.gone_for < timedelta(0) or windows > LONGEST_WINDOW:
            raise ConfigurationError(
                f"The windows of an idempotent route are {self.replay_for} and {self.gone_for}: the first must be more "
                f"than nothing, the second not less, and both together {LONGEST_WINDOW.days} days at most."
            )
        if self.attempts < 1:
            raise ConfigurationError("An idempotent route needs attempts=1 at least.")
