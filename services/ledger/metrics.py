"""What is counted about moves. Every reason is there from the start, at 0: an increase is seen from the first on."""

from typing import get_args

from prometheus_client import Counter

from services.ledger.outcome import Reason

REFUSED = Counter(
    "surefoot_ledger_refused_total", "Attempts to move money that were refused, those tried again included.", ["reason"]
)
for reason in get_args(Reason):
    REFUSED.labels(reason)
