"""Whose webhooks are believed. Read once at the edge."""

from datetime import timedelta

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from surefoot.errors import ConfigurationError
from surefoot.webhooks import TOLERANCE, Scheme, keys_of


class WebhookSettings(BaseSettings):
    """Each can be set by the environment: SUREFOOT_PAYMENT_WEBHOOK_SECRETS, SUREFOOT_PAYMENT_WEBHOOK_SCHEME, …"""

    model_config = SettingsConfigDict(env_prefix="SUREFOOT_PAYMENT_WEBHOOK_", frozen=True, extra="ignore")

    secrets: SecretStr | None = Field(
        None, description="What webhooks are signed with; two with a comma between them while it changes."
    )
    scheme: Scheme = Field("standard", description="How they are signed: Standard Webhooks, or Stripe's own scheme.")
    gateway: str = Field("provider", min_length=1, description="Whose events they are, as charges name their gateway.")
    tolerance: timedelta = Field(
        TOLERANCE,
        gt=timedelta(0),
        le=timedelta(hours=1),
        description="So old, or so far ahead of our clock, a webhook may be.",
    )

    def keys(self) -> tuple[bytes, ...]:
        """Refused with a sentence if there is none, or one that is none."""
        said = "" if self.secrets is None else self.secrets.get_secret_value()
        secrets = [secret.strip() for secret in said.split(",") if secret.strip()]
        if not secrets:
            raise ConfigurationError(
                "Webhooks cannot be taken without a secret, because anybody could send them: set "
                "SUREFOOT_PAYMENT_WEBHOOK_SECRETS to the one that the gateway signs with."
            )
        return keys_of(self.scheme, secrets)
