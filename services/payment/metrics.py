"""What is counted about what the gateway says of charges."""

from prometheus_client import Counter

WEBHOOKS = Counter(
    "surefoot_payment_webhooks_total",
    "Webhooks of the gateway, by what became of them, or by why they were refused.",
    ["outcome"],
)
CONTRADICTIONS = Counter(
    "surefoot_payment_contradictions_total",
    "News of a charge that cannot be true beside the books: in a webhook, also one that was kept, or in an answer.",
    ["source"],
)
