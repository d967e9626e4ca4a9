"""How the dead-letter service runs. Read once at the edge, checked together."""

from datetime import timedelta

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from surefoot.database.schema import DEFAULT_SCHEMA


class DlqSettings(BaseSettings):
    """Each can be set by the environment: SUREFOOT_DLQ_RESEND_AFTER=PT10S, …"""

    model_config = SettingsConfigDict(env_prefix="SUREFOOT_DLQ_", frozen=True, extra="ignore")

    db_schema: str = DEFAULT_SCHEMA
    group: str = Field("dlq", description="The name under which all dead-letter services of a database read the log.")
    look_for_topics: timedelta = Field(
        timedelta(seconds=10), description="How often new dead-letter topics are sought."
    )
    poll_records: int = Field(500, ge=1, le=10_000, description="Letters taken in one transaction, at most.")
    tick: timedelta = Field(timedelta(milliseconds=100), description="How often jobs are looked at.")
    unanswered: int = Field(500, ge=1, le=10_000, description="Control records of a job under way, at most.")
    resend_after: timedelta = Field(
        timedelta(seconds=30), description="A control record that nobody answered is sent again, under the same id."
    )
    approval_window: timedelta = Field(timedelta(minutes=30), description="How long a discard may wait for approval.")
    most_items: int = Field(10_000, ge=1, le=100_000, description="Events in one job or discard, at most.")
    jobs_per_person: int = Field(5, ge=1, description="Jobs that one person may have under way.")
    retention: timedelta = Field(timedelta(days=30), description="How long dead letters are kept.")
    many_open: int = Field(100, ge=1, description="Above so many open letters of a consumer somebody is told.")
    housekeeping: timedelta = Field(
        timedelta(seconds=30), description="How often old rows go and alerts are considered."
    )
