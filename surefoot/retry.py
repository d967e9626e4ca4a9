"""How often something is tried, and how long it rests in between. Pure: chance comes in as a number from 0 to 1."""

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
        """The rest after so many failures, between half and all of the doubled one; None after the last attempt."""
        if failures >= self.attempts:
            return None
        return jittered(backoff(failures - 1, shortest=self.first, longest=self.longest), chance)


def backoff(failures_before: int, *, shortest: timedelta, longest: timedelta) -> timedelta:
    """Doubles each time, up to the longest. (2 ** 30 half-seconds is long enough; more would overflow.)"""
    doubled: timedelta = shortest * 2 ** min(failures_before, 30)
    return min(longest, doubled)


def jittered(rest: timedelta, chance: float) -> timedelta:
    """Between half and all of a rest: without chance, what failed together would come back together."""
    return rest / 2 + rest / 2 * chance
