"""The settings of the Postgres log, read from the environment: one frozen model, `SUREFOOT_LOG_…`."""

from datetime import timedelta

from pydantic_settings import BaseSettings, SettingsConfigDict


class LogSettings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix="SUREFOOT_LOG_", frozen=True, extra="ignore", env_ignore_empty=True)

    lease: timedelta = timedelta(seconds=10)
    """A member of a group that is silent for this long loses its partitions. (On Kafka: `session_timeout`.)"""
