"""How long a call goes on trying, and how long it rests in between. Pure."""

from dataclasses import dataclass
from datetime import timedelta

from surefoot.errors import ConfigurationError
from surefoot.retry import backoff, jittered


@dataclass(frozen=True, slots=True)
class Patience:
    attempts: int = 10
    within: timedelta = timedelta(seconds=60)
    """All attempts and rests together."""
    base: timedelta = timedelta(milliseconds=250)
    longest: timedelta = timedelta(seconds=20)

    def __post_init__(self) -> None:
        if self.attempts < 1 or self.within <= timedelta(0) or not timedelta(0) <= self.base <= self.longest:
            raise ConfigurationError(
                "A client needs attempts=1 at least, within more than nothing, and base not longer than longest."
            )

    def rest(self, n: int, chance: float) -> timedelta:
        """Before the retry after n others: between half and all of min(base x 2^n, longest), by chance."""
        return jittered(backoff(n, shortest=self.base, longest=self.longest), chance)
