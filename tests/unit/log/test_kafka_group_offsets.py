"""Asking a group's coordinator how far it has got: again while coordinators move, and never a wrong "nothing"."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.protocol.commit import OffsetFetchRequest
from aiokafka.protocol.coordination import FindCoordinatorRequest

from surefoot.errors import LogUnavailable
from surefoot.log.kafka import client as kafka_client
from surefoot.log.kafka.log import KafkaLog
from surefoot.log.kafka.settings import KafkaSettings
from surefoot.log.port import TopicPartition

SETTINGS = KafkaSettings(bootstrap_servers="broker:9092", request_timeout=timedelta(milliseconds=300))
UNKNOWN_TOPIC, LEADER_NOT_AVAILABLE, TOPIC_NOT_ALLOWED, GROUP_NOT_ALLOWED = 3, 5, 29, 30
LOADING, NOT_AVAILABLE, NOT_COORDINATOR = 14, 15, 16
NEVER = -1


class StubbedBrokers(AIOKafkaAdminClient):  # type: ignore[misc]  # aiokafka is untyped
    """aiokafka's own admin client, on brokers that answer so: error codes are told in turn, the last for ever."""

    def __init__(self, *, found: Sequence[int] = (0,), fetched: Sequence[int] = (0,), topic: int = 0) -> None:
        self.found, self.fetched, self.topic = list(found), list(fetched), topic
        self.partition_code = 0
        self.asked: list[int | None] = []

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    async def _send_request(self, request: Any, node_id: int | None = None) -> Any:
        if isinstance(request, FindCoordinatorRequest):
            return SimpleNamespace(error_code=_next(self.found), coordinator_id=7)
        if isinstance(request, OffsetFetchRequest):
            self.asked.append(node_id)
            code = _next(self.fetched)
            # As Kafka answers since version 2 of this question: an error of the coordinator comes without partitions.
            offsets = [] if code else [(n, offset, "", self.partition_code) for n, offset in enumerate((5, NEVER, 0))]
            return SimpleNamespace(error_code=code, topics=[("t", offsets)] if offsets else [])
        return SimpleNamespace(to_object=self._metadata)

    def _metadata(self) -> Mapping[str, Any]:
        partitions = [] if self.topic else [{"partition": number, "leader": 1} for number in range(3)]
        return {"topics": [{"topic": "t", "error_code": self.topic, "partitions": partitions}]}


def _next(codes: list[int]) -> int:
    return codes.pop(0) if len(codes) > 1 else codes[0]


@pytest.fixture
def log_on(monkeypatch: pytest.MonkeyPatch) -> Any:
    def log_on(brokers: StubbedBrokers) -> KafkaLog:
        made = iter([brokers])  # a second client would be a StopIteration
        monkeypatch.setattr(kafka_client, "new_admin", lambda _: next(made))
        return KafkaLog(SETTINGS)

    return log_on


async def test_the_coordinator_is_asked_and_what_was_never_committed_is_left_out(log_on: Any) -> None:
    brokers = StubbedBrokers()

    assert await log_on(brokers).group_offsets("g", "t") == {TopicPartition("t", 0): 5, TopicPartition("t", 2): 0}
    assert brokers.asked == [7]


async def test_however_often_it_is_asked_one_client_does(log_on: Any) -> None:
    brokers = StubbedBrokers()
    log = log_on(brokers)

    for _ in range(10):
        assert len(await log.group_offsets("g", "t")) == 2
    assert len(brokers.asked) == 10


@pytest.mark.parametrize("code", [LOADING, NOT_AVAILABLE, NOT_COORDINATOR])
async def test_a_coordinator_that_moves_is_looked_up_again(log_on: Any, code: int) -> None:
    moved = StubbedBrokers(found=[code, code, 0], fetched=[code, 0])

    assert sorted((await log_on(moved).group_offsets("g", "t")).values()) == [0, 5]


async def test_but_no_longer_than_the_request_timeout(log_on: Any) -> None:
    with pytest.raises(LogUnavailable, match=r"within 0.3 s while asking how far the group g has got in t"):
        await log_on(StubbedBrokers(fetched=[LOADING])).group_offsets("g", "t")


async def test_a_group_we_may_not_ask_about_is_not_one_that_never_committed(log_on: Any) -> None:
    with pytest.raises(LogUnavailable, match="does not allow it to user ANONYMOUS while asking how far the group g"):
        await log_on(StubbedBrokers(found=[GROUP_NOT_ALLOWED])).group_offsets("g", "t")


async def test_a_partition_that_is_not_told_is_not_left_out(log_on: Any) -> None:
    brokers = StubbedBrokers()
    brokers.partition_code = TOPIC_NOT_ALLOWED

    with pytest.raises(LogUnavailable, match="Unable to get offset info for t and 0"):
        await log_on(brokers).group_offsets("g", "t")


@pytest.mark.parametrize("code", [TOPIC_NOT_ALLOWED, LEADER_NOT_AVAILABLE])
async def test_a_topic_that_is_not_described_is_not_missing(log_on: Any, code: int) -> None:
    with pytest.raises(LogUnavailable, match="t"):
        await log_on(StubbedBrokers(topic=code)).group_offsets("g", "t")


async def test_in_a_topic_that_does_not_exist_nothing_is_committed(log_on: Any) -> None:
    assert await log_on(StubbedBrokers(topic=UNKNOWN_TOPIC)).group_offsets("g", "t") == {}
