"""How the dead-letter service runs. Read once at the edge, checked together."""

from datetime import timedelta
from pathlib import Path
from typing import Self

from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from surefoot.database.schema import DEFAULT_SCHEMA
from surefoot.errors import ConfigurationError
from surefoot.settings import Internal
from surefoot.telemetry.webhook import Shape
from surefoot.webhooks.standard import secret_bytes


class DlqSettings(BaseSettings):
    """Each can be set by the environment: SUREFOOT_DLQ_RETENTION=P60D, …"""

    model_config = SettingsConfigDict(
        env_prefix="SUREFOOT_DLQ_", frozen=True, extra="ignore", hide_input_in_errors=True
    )

    db_schema: Internal[str] = DEFAULT_SCHEMA
    group: str = Field("dlq", description="The name under which all dead-letter services of a database read the log.")
    look_for_topics: Internal[timedelta] = Field(
        timedelta(seconds=10), description="How often new dead-letter topics are sought."
    )
    poll_records: Internal[int] = Field(500, ge=1, le=10_000, description="Letters taken in one transaction, at most.")
    tick: Internal[timedelta] = Field(timedelta(milliseconds=100), description="How often jobs are looked at.")
    unanswered: Internal[int] = Field(500, ge=1, le=10_000, description="Control records of a job under way, at most.")
    resend_after: Internal[timedelta] = Field(
        timedelta(seconds=30), description="A control record that nobody answered is sent again, under the same id."
    )
    transaction_timeout: Internal[timedelta] = Field(
        timedelta(seconds=10),
        ge=timedelta(seconds=2),
        le=timedelta(hours=1),
        description="A service that freezes within a transaction keeps its rows from others for so long. "
        "On PostgreSQL 17 and newer, a batch of letters must be taken in within it.",
    )
    approval_window: timedelta = Field(timedelta(minutes=30), description="How long a discard may wait for approval.")
    most_items: Internal[int] = Field(10_000, ge=1, le=100_000, description="Events in one job or discard, at most.")
    jobs_per_person: Internal[int] = Field(5, ge=1, description="Jobs that one person may have under way.")
    retention: timedelta = Field(timedelta(days=30), description="How long dead letters are kept.")
    many_open: Internal[int] = Field(
        100, ge=1, description="Above so many open letters of a consumer somebody is told."
    )
    housekeeping: Internal[timedelta] = Field(
        timedelta(seconds=30), description="How often old rows go and alerts are considered."
    )
    alert_webhook: str | None = Field(None, description="Gets a POST for every alert.")
    alert_secret: SecretStr | None = Field(
        None, description="Signs those by the Standard Webhooks scheme: whsec_ and 24 to 64 random bytes in Base64."
    )
    alert_shape: Shape = Field("json", description="What is posted: json, or slack for a text in a channel.")
    report_directory: Path | None = Field(
        None, description="Where the weekly report is written, one file for each week."
    )

    @field_validator("alert_webhook")
    @classmethod
    def _is_a_url(cls, url: str | None) -> str | None:
        if url is not None and not url.startswith(("http://", "https://")):
            raise ValueError("write it as https://host/path")
        return url

    @field_validator("alert_secret")
    @classmethod
    def _is_a_secret(cls, secret: SecretStr | None) -> SecretStr | None:
        if secret is not None:
            try:
                secret_bytes(secret.get_secret_value())
            except ConfigurationError as error:
                raise ValueError(str(error).rstrip(".")) from None
        return secret

    @model_validator(mode="after")
    def _signs_something(self) -> Self:
        if self.alert_secret is not None and self.alert_webhook is None:
            raise ValueError("a secret signs what goes to a webhook: set SUREFOOT_DLQ_ALERT_WEBHOOK too")
        return self
