"""A real Kafka for tests, and for `make kafka`.

Taken in this order: the broker in SUREFOOT_KAFKA; a container, if a Docker engine answers; else Apache Kafka itself,
from Maven Central's jars with this machine's Java. Never a mock: Kafka is what is tested.
"""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from surefoot.errors import ConfigurationError, SurefootError
from surefoot.log.kafka.settings import ADDRESS_VARIABLE
from surefoot.testing.kafka_node import LocalKafka, answers

__all__ = ["Broker", "LocalKafka", "find_kafka"]

DOCKER_PING_TIMEOUT_S = 5
_CONTAINER_SETTINGS = {
    "KAFKA_GROUP_MIN_SESSION_TIMEOUT_MS": "1000",
    "KAFKA_AUTO_CREATE_TOPICS_ENABLE": "false",
    "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
    "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
}


@dataclass(frozen=True, slots=True)
class Broker:
    address: str
    source: Literal["setting", "docker", "local"]
    node: LocalKafka | None = None
    """The process, if it is ours to stop and freeze."""


@contextmanager
def find_kafka() -> Iterator[Broker]:
    """A broker that answers, and its end when the block ends (if we started it)."""
    given = os.environ.get(ADDRESS_VARIABLE)
    if given:
        if not answers(given):
            raise ConfigurationError(
                f"{ADDRESS_VARIABLE} says {given}, but no Kafka answers there. Start it, or unset it."
            )
        yield Broker(given, "setting")
    elif _docker_answers():
        with _container() as container:
            yield Broker(container.get_bootstrap_server(), "docker")
    else:
        with _local() as node:
            yield Broker(node.address, "local", node)


def _local() -> LocalKafka:
    try:
        node = LocalKafka()
        node.start()
    except ConfigurationError as missing:
        raise ConfigurationError(
            f"No Kafka can be had: {ADDRESS_VARIABLE} is not set, no Docker engine answers, and Apache Kafka cannot be "
            f"started here ({missing}). Install Java 17 and Maven, or Docker, or set {ADDRESS_VARIABLE} to a broker."
        ) from missing
    return node


def _docker_answers() -> bool:
    """Whether there is an engine, asked through the command: it knows contexts, and it ends when told to."""
    command = ["docker", "version", "--format", "{{.Server.Version}}"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=DOCKER_PING_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def _container() -> Any:
    from testcontainers.community.kafka import KafkaContainer

    container = KafkaContainer().with_kraft()
    for name, value in _CONTAINER_SETTINGS.items():
        container.with_env(name, value)
    return container


def main() -> int:
    """Run a broker until Ctrl-C."""
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    _say("Starting Kafka (the first time it is downloaded, some 43 MB) …")
    try:
        with find_kafka() as broker:
            _say(f"Kafka answers at {broker.address}")
            _say(f"Use it:  export {ADDRESS_VARIABLE}={broker.address}")
            _say("Ctrl-C stops it.")
            while not ended.wait(0.5):
                if broker.node is not None and broker.node.pid is None:
                    _say("Kafka ended by itself.")
                    return 1
            _say("Stopping Kafka …")
    except SurefootError as error:
        _say(str(error))
        return 1
    return 0


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main())
