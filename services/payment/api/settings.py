"""Who may use the payments API, and how it behaves. Read once at the edge."""

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict


class ApiSettings(BaseSettings):
    """Each can be set by the environment: SUREFOOT_PAYMENT_API_KEYS, …"""

    model_config = SettingsConfigDict(env_prefix="SUREFOOT_PAYMENT_API_", frozen=True, extra="ignore")

    keys: SecretStr | None = Field(
        None,
        description='API keys and whose they are, as a JSON object: {"sha256:<64 hex digits>": "acme"}, or the '
        "key itself in place of its hash.",
    )
    connections: int = Field(20, ge=1, le=500, description="Database connections of one process, for keys and work.")
    alert_webhook: str | None = Field(None, description="Gets a JSON POST for every alert.")
