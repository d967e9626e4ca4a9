"""What the shop's orchestrator is set to. All other settings are the engine's (docs/settings.md lists them)."""

from datetime import timedelta

from surefoot.orchestrator.settings import OrchestratorSettings


class ShopOrchestratorSettings(OrchestratorSettings):
    """A variable goes before each: SUREFOOT_ORCHESTRATOR_HISTORY_RETENTION=P90D, …"""

    # A buyer may ask for a year what became of an order or a return. Its history answers (`surefoot saga show`).
    history_retention: timedelta = timedelta(days=365)

    # Where alerts go: a saga is stuck, and waits for a person. None in development. In production, set
    # SUREFOOT_ORCHESTRATOR_ALERT_WEBHOOK, because the URL is a secret.
    alert_webhook: str | None = None
