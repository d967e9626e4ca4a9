"""Which event log to use: Kafka if its settings are given, else the one in the database."""

from datetime import timedelta

from pydantic_settings import BaseSettings, SettingsConfigDict

from surefoot.database.schema import DEFAULT_SCHEMA
from surefoot.errors import ConfigurationError
from surefoot.log.kafka.settings import KafkaSettings
from surefoot.log.port import EventLog


class LogSettings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix="SUREFOOT_LOG_", frozen=True, extra="ignore", env_ignore_empty=True)

    lease: timedelta = timedelta(seconds=10)
    """A member of a group that is silent for this long loses its partitions. (On Kafka: `session_timeout`.)"""


def open_log(
    kafka: KafkaSettings | None,
    database_url: str | None,
    schema: str = DEFAULT_SCHEMA,
    settings: LogSettings | None = None,
) -> EventLog:
    """`settings` of the log in the database; those in the environment, if left out."""
    # Imported when needed: whoever uses one log does not load the other's driver.
    if kafka is not None:
        from surefoot.log.kafka.log import KafkaLog

        return KafkaLog(kafka)
    if database_url is not None:
        from surefoot.log.postgres.log import PostgresLog

        return PostgresLog(database_url, schema, lease=(settings or LogSettings()).lease)
    raise ConfigurationError("No event log: set SUREFOOT_KAFKA to a broker's address, or give the URL of a database.")
