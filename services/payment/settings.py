"""Where the provider is, whose webhooks are believed, who may use the payments API. Read once at the edge."""

from datetime import timedelta

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from surefoot.errors import ConfigurationError
from surefoot.settings import Internal
from surefoot.webhooks import Scheme, keys_of


class PaymentSettings(BaseSettings):
    """Each can be set by the environment: SUREFOOT_PAYMENT_PROVIDER_URL, …"""

    model_config = SettingsConfigDict(env_prefix="SUREFOOT_PAYMENT_", frozen=True, extra="ignore")

    provider_url: str = Field(
        "http://127.0.0.1:6070", pattern="^https?://", description="The provider's HTTP API, without a path."
    )
    answer_within: Internal[timedelta] = Field(
        timedelta(seconds=10),
        gt=timedelta(0),
        description="Longer than this, and the answer counts as lost: it is asked for again, with the same key.",
    )


class WebhookSettings(BaseSettings):
    """Each can be set by the environment: SUREFOOT_PAYMENT_WEBHOOK_SECRETS, SUREFOOT_PAYMENT_WEBHOOK_SCHEME, …"""

    model_config = SettingsConfigDict(env_prefix="SUREFOOT_PAYMENT_WEBHOOK_", frozen=True, extra="ignore")

    secrets: SecretStr | None = Field(
        None, description="What webhooks are signed with; two with a comma between them while it changes."
    )
    scheme: Scheme = Field("standard", description="How they are signed: Standard Webhooks, or Stripe's own scheme.")
    gateway: Internal[str] = Field(
        "provider", min_length=1, description="Whose events they are, as charges name their gateway."
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


class ApiSettings(BaseSettings):
    """Each can be set by the environment: SUREFOOT_PAYMENT_API_KEYS, …"""

    model_config = SettingsConfigDict(env_prefix="SUREFOOT_PAYMENT_API_", frozen=True, extra="ignore")

    keys: SecretStr | None = Field(
        None,
        description='API keys and whose they are, as a JSON object: {"sha256:<64 hex digits>": "acme"}, or the '
        "key itself in place of its hash.",
    )
    alert_webhook: str | None = Field(None, description="Gets a JSON POST for every alert.")
