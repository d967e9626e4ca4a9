"""Says once that the store does not answer, and once that it does again, however many requests meet it."""

import time

import structlog

from surefoot.errors import words_of
from surefoot.idempotency.metrics import STORE_OUTAGES

log = structlog.get_logger("surefoot.idempotency")


class Absence:
    def __init__(self) -> None:
        self._requests = 0
        self._since = 0.0

    def met(self, error: Exception) -> None:
        if self._requests == 0:
            self._since = time.monotonic()
            STORE_OUTAGES.inc()
            log.warning(
                "requests are refused, or done without protection where a route allows it", error=words_of(error)
            )
        self._requests += 1

    def over(self) -> None:
        if self._requests:
            lasted_s = round(time.monotonic() - self._since, 1)
            log.info("the store of idempotency keys answers again", lasted_s=lasted_s, requests=self._requests)
            self._requests = 0
