"""What the shop's relay is set to. All other settings are the engine's (docs/settings.md lists them)."""

from datetime import timedelta

from surefoot.relay.settings import RelaySettings


class ShopRelaySettings(RelaySettings):
    """A variable goes before each: SUREFOOT_RELAY_RETENTION=P7D, …"""

    # Published rows are there to be looked at (`surefoot outbox list`), and cost room in the busiest table. Three days
    # are a weekend. The events themselves stay in Kafka for as long as their topics say.
    retention: timedelta = timedelta(days=3)

    # Where alerts go: a record that the log refuses for good, an outage. None in development. In production, set
    # SUREFOOT_RELAY_ALERT_WEBHOOK, because the URL is a secret.
    alert_webhook: str | None = None
