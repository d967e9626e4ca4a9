"""Where the provider is, and how long it is waited for. Read once at the edge."""

from datetime import timedelta

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class PaymentSettings(BaseSettings):
    """Each can be set by the environment: SUREFOOT_PAYMENT_PROVIDER_URL, SUREFOOT_PAYMENT_ANSWER_WITHIN, …"""

    model_config = SettingsConfigDict(env_prefix="SUREFOOT_PAYMENT_", frozen=True, extra="ignore")

    provider_url: str = Field(
        "http://127.0.0.1:6070", pattern="^https?://", description="The provider's HTTP API, without a path."
    )
    connect_within: timedelta = Field(
        timedelta(seconds=2), gt=timedelta(0), description="Longer than this, and the provider counts as away."
    )
    answer_within: timedelta = Field(
        timedelta(seconds=10),
        gt=timedelta(0),
        description="Longer than this, and the answer counts as lost: it is asked for again, with the same key.",
    )
