"""What the shop's consumers are set to. All other settings are the engine's (docs/settings.md lists them); what the
services themselves can be set to is in `services/settings.py`."""

from pydantic import Field

from surefoot.consumer_runtime.settings import ConsumerSettings


class ShopConsumerSettings(ConsumerSettings):
    """A variable goes before each: SUREFOOT_CONSUMER_CONCURRENCY=4, …"""

    # Eleven consumers may share one process, and each opens a connection for every partition it works on at once.
    concurrency: int = Field(2, ge=1, le=100)

    # Where alerts go: an event is dead, a dependency is away. None in development. In production, set
    # SUREFOOT_CONSUMER_ALERT_WEBHOOK, because the URL is a secret.
    alert_webhook: str | None = None
