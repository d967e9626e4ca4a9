"""How to reach Kafka: one frozen model, read once at the edge, checked together.

Read from the environment: `SUREFOOT_KAFKA` is the address (host:port, several with commas), everything else is
`SUREFOOT_KAFKA_…` (`SUREFOOT_KAFKA_SASL_USERNAME`, …). Publishers, subscriptions and the admin side all use the same.
"""

import os
from datetime import timedelta
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, SecretStr, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from surefoot.errors import ConfigurationError
from surefoot.settings import Internal

ADDRESS_VARIABLE = "SUREFOOT_KAFKA"

SecurityProtocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
SaslMechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]


class KafkaSettings(BaseSettings):
    model_config = SettingsConfigDict(
        env_prefix=f"{ADDRESS_VARIABLE}_", frozen=True, extra="ignore", env_ignore_empty=True
    )

    bootstrap_servers: Internal[str] = Field(default_factory=lambda: os.environ.get(ADDRESS_VARIABLE, ""))
    """host:port of one or more brokers, separated by commas."""

    security_protocol: SecurityProtocol = "PLAINTEXT"
    sasl_mechanism: SaslMechanism = "SCRAM-SHA-512"
    sasl_username: str | None = None
    sasl_password: SecretStr | None = None
    ssl_cafile: Path | None = None
    ssl_certfile: Path | None = None
    ssl_keyfile: Path | None = None

    request_timeout: Internal[timedelta] = timedelta(seconds=15)
    """After this long without an answer the log counts as out of reach."""

    session_timeout: timedelta = timedelta(seconds=10)
    """A consumer that is silent for this long loses its partitions."""

    max_poll_interval: Internal[timedelta] = timedelta(minutes=5)
    """A consumer that asks for no records for this long loses its partitions: it must outlast the slowest handler."""

    @property
    def servers(self) -> list[str]:
        return [server.strip() for server in self.bootstrap_servers.split(",") if server.strip()]

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        # ConfigurationError is no ValueError, so pydantic lets it through as it is: one plain sentence.
        if not self.servers:
            raise ConfigurationError(
                f"Kafka's address is missing. Set {ADDRESS_VARIABLE}=host:9092 (several with commas)."
            )
        if self.request_timeout < timedelta(milliseconds=100):
            raise ConfigurationError("Kafka's request_timeout is under 100 ms: no broker answers that fast every time.")
        if self.session_timeout > self.max_poll_interval:
            raise ConfigurationError("Kafka's session_timeout is longer than max_poll_interval; it has to be shorter.")
        self._check_sasl()
        self._check_tls()
        return self

    def _check_sasl(self) -> None:
        given = self.sasl_username is not None or self.sasl_password is not None
        if self.security_protocol.startswith("SASL"):
            if not self.sasl_username or self.sasl_password is None or not self.sasl_password.get_secret_value():
                raise ConfigurationError(
                    f"Kafka is to be reached by {self.security_protocol}, which needs a user and a password: "
                    f"set {ADDRESS_VARIABLE}_SASL_USERNAME and {ADDRESS_VARIABLE}_SASL_PASSWORD."
                )
        elif given:
            raise ConfigurationError(
                f"A SASL user or password is set, but the protocol is {self.security_protocol} and would not use it: "
                f"set {ADDRESS_VARIABLE}_SECURITY_PROTOCOL to SASL_SSL (or SASL_PLAINTEXT), or take them away."
            )

    def _check_tls(self) -> None:
        files = {"ssl_cafile": self.ssl_cafile, "ssl_certfile": self.ssl_certfile, "ssl_keyfile": self.ssl_keyfile}
        given = {name: path for name, path in files.items() if path is not None}
        if given and not self.security_protocol.endswith("SSL"):
            raise ConfigurationError(
                f"{' and '.join(given)} is set, but the protocol is {self.security_protocol}, which does not encrypt: "
                f"set {ADDRESS_VARIABLE}_SECURITY_PROTOCOL to SSL or SASL_SSL."
            )
        if self.ssl_keyfile is not None and self.ssl_certfile is None:
            raise ConfigurationError(
                "ssl_keyfile is set without ssl_certfile: a key is of no use without its certificate."
            )
        for name, path in given.items():
            if not path.is_file():
                raise ConfigurationError(f"{name} names {path}, and there is no such file.")
