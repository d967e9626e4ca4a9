"""Topics that cannot be written just now, and until when they are left alone.

Each topic has its own outage: one whose leader is gone, or that we may not write to, must not keep the others waiting.
When the whole log is away, all topics are; the lanes then find nothing to claim and rest.
"""

import time

from surefoot.relay.metrics import LOG_OUTAGES
from surefoot.relay.settings import RelaySettings
from surefoot.telemetry.outage import Outage


class TopicsAway:
    def __init__(self, settings: RelaySettings) -> None:
        self._settings = settings
        self._outages: dict[str, Outage] = {}
        self._until: dict[str, float] = {}

    def names(self) -> list[str]:
        """Those to be left out of the next claim."""
        now = time.monotonic()
        return [topic for topic, until in self._until.items() if until > now]

    def failed(self, topic: str, error: BaseException) -> None:
        outage = self._outages.setdefault(
            topic, Outage(f"the topic {topic}", LOG_OUTAGES, **self._settings.outage_pauses)
        )
        self._until[topic] = time.monotonic() + outage.failed(error).total_seconds()

    def works(self, topic: str) -> None:
        outage = self._outages.pop(topic, None)
        if outage is not None:
            outage.over()
            self._until.pop(topic, None)
