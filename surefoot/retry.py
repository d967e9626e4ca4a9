"""How often an event is tried, and how long it rests in between. Pure: chance comes in as a number."""

from dataclasses import dataclass
from datetime import timedelta

from surefoot.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Retry:
    attempts: int = 5
    first: timedelta = timedelta(seconds=1)
    """The longest rest after the first failure; doubles with each one."""
    longest: timedelta = timedelta(minutes=5)

    def __post_init__(self) -> None:
        if self.attempts < 1 or self.attempts > 1000:
            raise ConfigurationError(f"Retry(attempts={self.attempts}) is out of range: choose 1 to 1000.")
        if not timedelta(0) < self.first <= self.longest:
            raise ConfigurationError(
                f"Retry(first={self.first}, longest={self.longest}): the first rest must be above zero and not longer "
                "than the longest."
            )

    def rest(self, failures: int, chance: float) -> timedelta | None:
        """The rest after so many failures, between half and all of the doubled one; None when it was the last attempt.

        `chance` is a number from 0 to 1: without it, events that failed together would all come back together."""
        if failures >= self.attempts:
            return None
        full: timedelta = min(self.longest, self.first * 2 ** min(failures - 1, 30))
        return full / 2 + full / 2 * chance
