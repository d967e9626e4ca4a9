"""How a consumer runs. Read once at the edge, checked together."""

from datetime import timedelta
from typing import Self

from pydantic import Field, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from surefoot.database.schema import DEFAULT_SCHEMA
from surefoot.settings import Internal


class ConsumerSettings(BaseSettings):
    """Each can be set by the environment: SUREFOOT_CONSUMER_BATCH_RECORDS=500, SUREFOOT_CONSUMER_RETENTION=P90D, …"""

    model_config = SettingsConfigDict(env_prefix="SUREFOOT_CONSUMER_", frozen=True, extra="ignore")

    db_schema: Internal[str] = DEFAULT_SCHEMA
    batch_records: int = Field(1000, ge=1, le=50_000, description="Most records of one transaction.")
    batch_first: Internal[int] = Field(
        1, ge=1, le=50_000, description="Records of the first transaction; doubles as long as transactions are quick."
    )
    batch_time: Internal[timedelta] = Field(
        timedelta(milliseconds=500), description="A transaction takes as many records as are worked off in this time."
    )
    batch_bytes: Internal[int] = Field(
        4 * 1024 * 1024, ge=1024, description="Most bytes of one transaction (one record is taken)."
    )
    buffer_records: Internal[int] = Field(
        4000, ge=1, description="Records of a partition held in memory; above that no more are asked for."
    )
    buffer_bytes: Internal[int] = Field(16 * 1024 * 1024, ge=1024, description="The same, in bytes.")
    concurrency: int = Field(
        4, ge=1, le=100, description="Partitions worked on at once, each on a connection of its own."
    )
    outside_calls: int = Field(32, ge=1, le=1000, description="Outside calls under way at once.")
    handler_timeout: timedelta = Field(
        timedelta(minutes=5),
        description="A handler or outside call that takes longer is ended; it is a failed attempt.",
    )
    lock_timeout: Internal[timedelta] = Field(
        timedelta(seconds=5), description="Longest wait for a lock in the database."
    )
    handover: Internal[timedelta] = Field(
        timedelta(seconds=5), description="How long a batch may go on when its partition is to move to another member."
    )
    commit_interval: Internal[timedelta] = Field(
        timedelta(seconds=1), description="How often offsets are told to the log, for those who watch the lag."
    )
    outage_max: Internal[timedelta] = Field(
        timedelta(seconds=3), description="Longest pause while the database, the log or a dependency is away."
    )
    retention: timedelta = Field(
        timedelta(days=45),
        description="How long handled events are remembered; raised to what the topics and a replay need, if less.",
    )
    housekeeping: Internal[timedelta] = Field(
        timedelta(seconds=15), description="How often old rows go and lag is measured."
    )
    alert_webhook: str | None = Field(None, description="Gets a JSON POST for every alert.")

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if self.batch_records > self.buffer_records:
            raise ValueError(f"batch_records {self.batch_records} is more than buffer_records {self.buffer_records}")
        if self.lock_timeout >= self.handler_timeout:
            raise ValueError(
                f"lock_timeout {self.lock_timeout} must be shorter than the handler_timeout of {self.handler_timeout}"
            )
        return self
