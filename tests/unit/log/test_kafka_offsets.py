"""Asking leaders for offsets: each its own partitions, again while leaders move, and never a wrong "nothing"."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.protocol.metadata import MetadataRequest

from surefoot.errors import LogUnavailable
from surefoot.log.kafka import client as kafka_client
from surefoot.log.kafka.client import END, FIRST, KafkaClient
from surefoot.log.kafka.settings import KafkaSettings
from surefoot.log.port import TopicPartition

SETTINGS = KafkaSettings(bootstrap_servers="broker:9092", request_timeout=timedelta(milliseconds=300))
UNKNOWN_TOPIC, LEADER_NOT_AVAILABLE, NOT_LEADER, NOT_AUTHORISED, NOBODY = 3, 5, 6, 29, -1
KEPT = {FIRST: {0: 10, 1: 11, 2: 12}, END: {0: 20, 1: 21, 2: 22}}


class StubbedBrokers:
    """A topic of three partitions. `leaders` are told in turn, the last for ever; only `truly` is who answers well."""

    def __init__(self, *leaders: Sequence[int], truly: Sequence[int], error: int = 0, code: int = NOT_LEADER) -> None:
        self.leaders = list(leaders)
        self.truly = truly
        self.error = error
        self.code = code
        self.asked: list[tuple[int, list[int]]] = []

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    async def _send_request(self, request: Any, node_id: int | None = None) -> Any:
        if isinstance(request, MetadataRequest):
            return SimpleNamespace(to_object=self._metadata)
        assert node_id is not None
        [(topic, questions)] = request._topics
        self.asked.append((node_id, [partition for partition, _ in questions]))
        return SimpleNamespace(topics=[(topic, [self._offset(node_id, *question) for question in questions])])

    def _metadata(self) -> Mapping[str, Any]:
        told = self.leaders.pop(0) if len(self.leaders) > 1 else self.leaders[0]
        partitions = [{"partition": number, "leader": leader} for number, leader in enumerate(told)]
        return {"topics": [{"topic": "t", "error_code": self.error, "partitions": [] if self.error else partitions}]}

    def _offset(self, node: int, partition: int, which: int) -> tuple[int, int, int, int]:
        if node != self.truly[partition]:
            return (partition, self.code, -1, -1)
        return (partition, 0, -1, KEPT[which][partition])


@pytest.fixture
def client_of(monkeypatch: pytest.MonkeyPatch) -> Any:
    def client_of(brokers: StubbedBrokers) -> KafkaClient:
        monkeypatch.setattr(kafka_client, "new_admin", lambda _: brokers)
        return KafkaClient(SETTINGS)

    return client_of


async def test_each_leader_is_asked_once_for_what_it_leads(client_of: Any) -> None:
    brokers = StubbedBrokers([1, 2, 1], truly=[1, 2, 1])
    client = client_of(brokers)

    assert await client.offsets("t", FIRST) == {
        TopicPartition("t", 0): 10,
        TopicPartition("t", 1): 11,
        TopicPartition("t", 2): 12,
    }
    assert sorted(brokers.asked) == [(1, [0, 2]), (2, [1])]
    assert set((await client.offsets("t", END)).values()) == {20, 21, 22}


@pytest.mark.parametrize("code", [UNKNOWN_TOPIC, LEADER_NOT_AVAILABLE, NOT_LEADER])
async def test_a_leader_that_moved_is_looked_up_again(client_of: Any, code: int) -> None:
    found = await client_of(StubbedBrokers([1, 2, 1], [1, 2, 2], truly=[1, 2, 2], code=code)).offsets("t", END)

    assert sorted(found.values()) == [20, 21, 22]


async def test_a_leader_that_is_being_elected_is_waited_for(client_of: Any) -> None:
    found = await client_of(StubbedBrokers([1, NOBODY, 1], [1, 2, 1], truly=[1, 2, 1])).offsets("t", END)

    assert sorted(found.values()) == [20, 21, 22]


async def test_but_no_longer_than_the_request_timeout(client_of: Any) -> None:
    with pytest.raises(LogUnavailable, match=r"within 0.3 s while asking for the offsets of t"):
        await client_of(StubbedBrokers([1, NOBODY, 1], truly=[1, 2, 1])).offsets("t", END)


async def test_a_partition_we_may_not_ask_about_is_not_left_out(client_of: Any) -> None:
    with pytest.raises(LogUnavailable, match="the right Describe is missing on t"):
        await client_of(StubbedBrokers([1, 2, 1], truly=[1, 9, 1], code=NOT_AUTHORISED)).offsets("t", END)


@pytest.mark.parametrize("error", [NOT_AUTHORISED, LEADER_NOT_AVAILABLE])
async def test_a_topic_that_is_not_described_is_not_missing(client_of: Any, error: int) -> None:
    with pytest.raises(LogUnavailable, match="t"):
        await client_of(StubbedBrokers([1, 1, 1], truly=[1, 1, 1], error=error)).offsets("t", END)


async def test_a_topic_that_does_not_exist_has_none(client_of: Any) -> None:
    assert await client_of(StubbedBrokers([], truly=[], error=UNKNOWN_TOPIC)).offsets("t", END) == {}
