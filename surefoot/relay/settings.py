"""How a relay behaves. Read once at the edge, checked together: a lease must outlast its worst round."""

from datetime import timedelta
from typing import Self

from pydantic import Field, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from surefoot.database.schema import DEFAULT_SCHEMA
from surefoot.settings import Internal


class RelaySettings(BaseSettings):
    """Each can be set by the environment: SUREFOOT_RELAY_LEASE=PT10S, SUREFOOT_RELAY_LANES=4, …"""

    model_config = SettingsConfigDict(env_prefix="SUREFOOT_RELAY_", frozen=True, extra="ignore")

    db_schema: Internal[str] = DEFAULT_SCHEMA
    lease: timedelta = Field(
        timedelta(seconds=10), description="A relay that is silent for this long loses its shards."
    )
    heartbeat: Internal[timedelta] = Field(
        timedelta(seconds=2), description="How often leases are renewed and shares evened out."
    )
    lock_timeout: Internal[timedelta] = Field(
        timedelta(seconds=4), description="Longest wait for a lock in the database."
    )
    lanes: int = Field(3, ge=1, le=32, description="Rounds that run beside each other, each on its own shards.")
    batch_rows: Internal[int] = Field(2000, ge=1, le=50_000, description="Most rows of one round.")
    poll_min: Internal[timedelta] = Field(
        timedelta(milliseconds=1), description="Pause between rounds while events trickle in."
    )
    poll_max: Internal[timedelta] = Field(
        timedelta(milliseconds=250), description="Longest pause when there is nothing to do."
    )
    max_attempts: Internal[int] = Field(5, ge=1, le=100, description="Refusals of a record before it is FAILED.")
    retry_min: Internal[timedelta] = Field(
        timedelta(milliseconds=500), description="Pause after a record's first refusal; doubles."
    )
    retry_max: Internal[timedelta] = Field(
        timedelta(seconds=30), description="Longest pause between attempts and outage retries."
    )
    retention: timedelta = Field(timedelta(days=7), description="How long published rows are kept.")
    housekeeping: Internal[timedelta] = Field(
        timedelta(seconds=15), description="How often old rows are removed and ages measured."
    )
    alert_webhook: str | None = Field(None, description="Gets a JSON POST for every alert.")

    @property
    def outage_pauses(self) -> dict[str, timedelta]:
        """How long to leave alone what is away, at first and at most."""
        return {"shortest": self.retry_min / 5, "longest": self.retry_max / 10}

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if self.heartbeat * 3 > self.lease:
            raise ValueError(
                f"heartbeat {self.heartbeat} is too slow for a lease of {self.lease}: make it a third at most"
            )
        if self.lock_timeout >= self.lease:
            raise ValueError(f"lock_timeout {self.lock_timeout} must be shorter than the lease of {self.lease}")
        if self.poll_min > self.poll_max:
            raise ValueError(f"poll_min {self.poll_min} is longer than poll_max {self.poll_max}")
        if self.retry_min > self.retry_max:
            raise ValueError(f"retry_min {self.retry_min} is longer than retry_max {self.retry_max}")
        return self
