"""`surefoot dlq serve` on Kafka: an order dies, is replayed from a terminal, and has its effect.

The broker is shared, and the service reads every dead-letter topic there is: this looks at its own key only.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from surefoot.testing.kafka_node import LocalKafka
from tests.support.dlq.served_harness import Ground, all_parts, ground_at, running

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


@pytest.fixture
def ground(database_url: str, tmp_path: Path, own_broker: LocalKafka) -> Iterator[Ground]:
    with ground_at(database_url, tmp_path, own_broker.address) as ground:
        yield ground


def test_a_dead_event_is_replayed_over_kafka(ground: Ground, topic_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUREFOOT_DLQ_GROUP", topic_name)
    with running(ground, all_parts(ground)):
        ground.wait_until_served()
        (letter,) = ground.dead(topic_name)
        ground.mend(topic_name)
        dry = ground.run("dlq", "replay", letter, "--dry-run", "--follow", "--reason", "is it safe?")
        assert dry.code == 0, dry.out + dry.err
        done = ground.run("dlq", "replay", "--key", topic_name, "--follow", "--reason", "the old quote is gone")
        assert done.code == 0, done.out + done.err
        assert ground.status(letter) == "REPLAYED"
        assert ground.value("SELECT count(*) FROM labels.quotes WHERE order_id = %s", topic_name) == 1
