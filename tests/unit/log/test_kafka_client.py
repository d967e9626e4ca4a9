"""What the brokers' answers about topics mean: there, not there, or not to be known just now."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import SecretStr

from surefoot.errors import LogUnavailable
from surefoot.log.kafka import client as kafka_client
from surefoot.log.kafka.client import KafkaClient
from surefoot.log.kafka.settings import KafkaSettings
from surefoot.log.port import TopicSpec

SETTINGS = KafkaSettings(bootstrap_servers="broker:9092")
NOT_AUTHORISED, LEADER_NOT_AVAILABLE, UNKNOWN_TOPIC, INVALID_TOPIC, INVALID_REQUEST = 29, 5, 3, 17, 42
PARTITIONS = [{"partition": 0, "leader": 1}, {"partition": 1, "leader": 1}]


class StubbedAdmin:
    """Answers each topic with an error code, for what it is and for its settings. 0: a topic of two partitions."""

    def __init__(self, metadata: Mapping[str, int], configs: Mapping[str, int] | None = None) -> None:
        self.metadata = metadata
        self.configs = configs or {}
        self.metadata_later: Mapping[str, int] | None = None

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    async def _send_request(self, request: object) -> Any:
        topics = [
            {"topic": name, "error_code": code, "partitions": [] if code else PARTITIONS}
            for name, code in self.metadata.items()
        ]
        if self.metadata_later is not None:
            self.metadata = self.metadata_later
        return SimpleNamespace(to_object=lambda: {"topics": topics})

    async def describe_configs(self, config_resources: Sequence[Any]) -> Sequence[Any]:
        return [SimpleNamespace(resources=[self._configs_of(resource.name) for resource in config_resources])]

    def _configs_of(self, name: str) -> tuple[int, str | None, int, str, list[tuple[str, str]]]:
        code = self.configs.get(name, 0)
        entries = [] if code else [("max.message.bytes", "100512"), ("retention.ms", "3600000")]
        return (code, None, 2, name, entries)


@pytest.fixture
def client_of(monkeypatch: pytest.MonkeyPatch) -> Any:
    def client_of(admin: StubbedAdmin, settings: KafkaSettings = SETTINGS) -> KafkaClient:
        monkeypatch.setattr(kafka_client, "new_admin", lambda _: admin)
        return KafkaClient(settings)

    return client_of


async def test_a_topic_is_described_with_its_own_settings(client_of: Any) -> None:
    found = await client_of(StubbedAdmin({"t": 0})).topics(["t"])

    assert found["t"].spec == TopicSpec("t", 2, timedelta(hours=1), 100_000)
    assert found["t"].max_message_bytes == 100_512
    assert found["t"].led


@pytest.mark.parametrize("code", [UNKNOWN_TOPIC, INVALID_TOPIC])
async def test_only_these_codes_mean_that_a_topic_is_missing(client_of: Any, code: int) -> None:
    found = await client_of(StubbedAdmin({"there": 0, "gone": code})).topics(["there", "gone"])

    assert list(found) == ["there"]


async def test_a_topic_we_may_not_see_is_not_missing_and_the_sentence_says_what_to_grant(client_of: Any) -> None:
    settings = KafkaSettings(
        bootstrap_servers="broker:9092",
        security_protocol="SASL_PLAINTEXT",
        sasl_username="relay",
        sasl_password=SecretStr("secret"),
    )
    client = client_of(StubbedAdmin({"seen": 0, "hidden": NOT_AUTHORISED}), settings)

    with pytest.raises(LogUnavailable) as raised:
        await client.topics(["seen", "hidden"])

    assert str(raised.value) == (
        "Kafka at broker:9092 does not allow it to user relay while asking about topics: the right Describe is missing "
        "on hidden. Grant User:relay Describe on it; Write, to publish, and Read, to read, include it."
    )


@pytest.mark.parametrize("code", [LEADER_NOT_AVAILABLE, -1])
async def test_a_topic_the_brokers_cannot_describe_is_not_missing(client_of: Any, code: int) -> None:
    with pytest.raises(LogUnavailable, match=rf"broker:9092 cannot describe t \(error {code}\) just now"):
        await client_of(StubbedAdmin({"t": code})).topics(["t"])


@pytest.mark.parametrize("code", [NOT_AUTHORISED, INVALID_REQUEST])
async def test_a_topic_whose_settings_are_not_told_is_taken_to_have_kafkas_defaults(client_of: Any, code: int) -> None:
    found = await client_of(StubbedAdmin({"t": 0}, configs={"t": code})).topics(["t"])

    assert found["t"].max_message_bytes == 1_048_588
    assert found["t"].spec.retention == timedelta(days=7)
    assert found["t"].spec.partitions == 2


async def test_a_topic_deleted_between_the_two_questions_is_missing(client_of: Any) -> None:
    found = await client_of(StubbedAdmin({"a": 0, "b": 0}, configs={"b": UNKNOWN_TOPIC})).topics(["a", "b"])

    assert list(found) == ["a"]


async def test_create_waits_for_a_topic_that_has_no_leader_yet(client_of: Any) -> None:
    admin = StubbedAdmin({"t": 0})
    client = client_of(admin)
    await client.topics(["t"])
    admin.metadata, admin.metadata_later = {"t": LEADER_NOT_AVAILABLE}, {"t": 0}

    await client._until_led(["t"])

    assert admin.metadata == {"t": 0}
