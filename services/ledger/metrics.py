"""What is counted about moves."""

from prometheus_client import Counter

REFUSED = Counter(
    "surefoot_ledger_refused_total", "Attempts to move money that were refused, those tried again included.", ["reason"]
)
