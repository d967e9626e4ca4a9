"""One Kafka broker for all processes of a test run, and one of its own for a test that needs it.

The controller starts the shared one when the first worker asks, and ends it with the run. Each test has topics of its
own there. A test that stops or freezes a broker, or runs a dead-letter service, which reads every dead-letter topic
there is, has a broker of its own.
"""

import os
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from surefoot.process_guard import remove_with_me
from surefoot.testing.kafka import Broker, find_kafka
from surefoot.testing.kafka_node import SHORT_LIVED, LocalKafka
from tests.support.evidence import DIRECTORY
from tests.support.waiting import wait_until

WITHIN_S = 120
_WANTED, _ADDRESS, _FAILED = "kafka-wanted", "kafka-address", "kafka-failed"
_LOOK_S = 0.1


@pytest.fixture
def own_broker() -> Iterator[LocalKafka]:
    """A broker of this test's own, which is running."""
    with LocalKafka(java_options=SHORT_LIVED) as broker:
        broker.start()
        yield broker


@pytest.fixture(scope="session")
def kafka() -> Iterator[Broker]:
    """The run's broker in a worker; one of its own in a run of one process."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        with find_kafka() as own:
            yield own
        return
    directory = Path(os.environ[DIRECTORY])
    (directory / _WANTED).touch()
    answered, failed = directory / _ADDRESS, directory / _FAILED
    wait_until(lambda: answered.exists() or failed.exists(), what="the run's broker answers", within_s=WITHIN_S)
    if failed.exists():
        pytest.fail(failed.read_text(), pytrace=False)
    yield Broker(answered.read_text(), "setting")


class BrokerOfTheRun:
    """A plugin of the controller: a thread that starts the broker once it is wanted, and holds it until the end."""

    def __init__(self) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="surefoot-tests-"))
        remove_with_me(self._directory)
        os.environ[DIRECTORY] = str(self._directory)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def pytest_unconfigure(self) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not (self._directory / _WANTED).exists():
            if self._over.wait(_LOOK_S):
                return
        try:
            with find_kafka() as found:
                self._tell(_ADDRESS, found.address)
                self._over.wait()
        except Exception as error:  # the tests that need it say so; a thread's exception would be lost
            self._tell(_FAILED, str(error))

    def _tell(self, name: str, text: str) -> None:
        part = self._directory / f"{name}.part"
        part.write_text(text)
        part.rename(self._directory / name)


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(BrokerOfTheRun(), "broker_of_the_run")
