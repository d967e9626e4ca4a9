"""What is counted about what the gateway says of charges. Series that rules watch are there from the start, at 0."""

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
for outcome in ("failed", "wrong_signature"):
    WEBHOOKS.labels(outcome)
for source in ("webhook", "answer"):
    CONTRADICTIONS.labels(source)
