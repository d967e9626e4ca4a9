"""Kafka's settings: from the environment, checked together, each mistake a sentence."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from surefoot.errors import ConfigurationError
from surefoot.log.kafka.aiokafka_typed import connection_arguments
from surefoot.log.kafka.settings import KafkaSettings
from tests.support.corpus import each_of


def settings(**given: Any) -> KafkaSettings:
    return KafkaSettings(**{"bootstrap_servers": "broker:9092", **given})


def test_everything_can_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUREFOOT_KAFKA", "one:9092, two:9092")
    monkeypatch.setenv("SUREFOOT_KAFKA_SECURITY_PROTOCOL", "SASL_PLAINTEXT")
    monkeypatch.setenv("SUREFOOT_KAFKA_SASL_USERNAME", "relay")
    monkeypatch.setenv("SUREFOOT_KAFKA_SASL_PASSWORD", "secret")
    monkeypatch.setenv("SUREFOOT_KAFKA_REQUEST_TIMEOUT", "PT3S")

    found = KafkaSettings()

    assert found.servers == ["one:9092", "two:9092"]
    assert found.sasl_username == "relay"
    assert found.request_timeout == timedelta(seconds=3)
    assert "secret" not in repr(found)


def test_the_address_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SUREFOOT_KAFKA", raising=False)
    with pytest.raises(ConfigurationError, match="SUREFOOT_KAFKA=host:9092"):
        KafkaSettings()


@each_of(
    ("given", "sentence"),
    [
        ({"security_protocol": "SASL_SSL"}, "needs a user and a password"),
        ({"security_protocol": "SASL_SSL", "sasl_username": "relay"}, "needs a user and a password"),
        ({"sasl_username": "relay", "sasl_password": "x"}, "would not use it"),
        ({"ssl_cafile": Path(__file__)}, "does not encrypt"),
        ({"security_protocol": "SSL", "ssl_cafile": "/nowhere/ca.pem"}, "there is no such file"),
        ({"security_protocol": "SSL", "ssl_keyfile": Path(__file__)}, "without ssl_certfile"),
        ({"session_timeout": timedelta(minutes=9)}, "longer than max_poll_interval"),
        ({"request_timeout": timedelta(milliseconds=1)}, "under 100 ms"),
    ],
)
def test_what_does_not_fit_together_is_a_sentence(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=sentence):
        settings(**given)


def test_user_and_encryption_reach_every_client_alike() -> None:
    given = settings(security_protocol="SASL_SSL", sasl_username="relay", sasl_password="secret")

    arguments = connection_arguments(given)

    assert arguments["security_protocol"] == "SASL_SSL"
    assert arguments["sasl_mechanism"] == "SCRAM-SHA-512"
    assert arguments["sasl_plain_username"] == "relay"
    assert arguments["sasl_plain_password"] == "secret"
    assert arguments["ssl_context"] is not None


def test_a_plain_connection_says_nothing_of_either() -> None:
    assert set(connection_arguments(settings())) == {
        "bootstrap_servers",
        "client_id",
        "request_timeout_ms",
        "security_protocol",
    }
