"""Batches that fight over the same rows take turns for a while.

Two batches that update the same few rows, each in the order of its events, deadlock; Postgres takes a second to notice,
and taking both again, even in smaller parts, leads to the next deadlock. So when one was seen, the batches of this
consumer run one at a time, on all its members, by a lock in the database that each takes before anything else.
"""

import time

from surefoot.consumer import Consumer
from surefoot.consumer.failures import classify

TAKE_TURNS_S = 60.0


class Contention:
    """What one member knows; the others find out by themselves."""

    def __init__(self, consumer: Consumer) -> None:
        self._rules = consumer.rules
        self._until = 0.0

    def note(self, error: BaseException) -> None:
        if classify(error, self._rules) == "contended":
            self._until = time.monotonic() + TAKE_TURNS_S

    @property
    def takes_turns(self) -> bool:
        return time.monotonic() < self._until
