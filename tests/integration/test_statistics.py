"""`surefoot statistics` on a real Kafka: what is on the topics is what is served."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from surefoot.log.kafka.log import KafkaLog
from surefoot.log.kafka.settings import KafkaSettings
from surefoot.log.port import Acknowledged, Record, TopicPartition, TopicSpec
from surefoot.testing.kafka import Broker
from tests.integration.test_cli import ROOT
from tests.support import processes
from tests.support.ports import free_port
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow

JUNK = Record(b"\xff", b"{ not json", [("anything", b"\xff")])
TOMBSTONE = Record(b"k", None, [])


def event(event_type: str, number: int = 0) -> Record:
    names = {"specversion": "1.0", "id": f"{event_type}-{number}", "source": "/tests", "type": event_type}
    return Record(b"k", b"{}", [(f"ce_{name}", value.encode()) for name, value in names.items()])


def dead_letter(consumer: str, reason: str) -> Record:
    diagnosis = [("surefoot-consumer", consumer.encode()), ("surefoot-reason", reason.encode())]
    return Record(b"k", b"{}", [*event("order.placed").headers, *diagnosis])


@pytest.fixture
async def log(kafka: Broker, topic_name: str) -> AsyncIterator[KafkaLog]:
    """A log with a topic of this test's own and its dead-letter topic, of different numbers of partitions."""
    log = KafkaLog(KafkaSettings(bootstrap_servers=kafka.address))
    day = timedelta(days=1)
    await log.create([TopicSpec(topic_name, 3, day, 1 << 20), TopicSpec(f"{topic_name}.dlq", 2, day, 1 << 21)])
    yield log
    await log.close()


async def publish(log: KafkaLog, topic: str, partition: int, *records: Record) -> None:
    publisher = await log.publisher()
    assert await publisher.publish(TopicPartition(topic, partition), records) == Acknowledged(len(records))
    await publisher.close()


class Worker(NamedTuple):
    process: processes.AsyncChild
    url: str
    output: Path

    async def answers(self, path: str) -> Any:
        async with httpx.AsyncClient() as client:
            return (await client.get(f"{self.url}/statistics/{path}")).json()

    async def total(self, view: str) -> dict[str, int]:
        """The counts of all minutes together: the clock may pass to the next one within a test."""
        total: dict[str, int] = {}
        for minute in (await self.answers(view))["minutes"]:
            for name, count in minute["counts"].items():
                total[name] = total.get(name, 0) + count
        return total

    async def shows(self, view: str, expected: Mapping[str, int]) -> None:
        async def shown() -> bool:
            assert self.process.returncode is None, self.output.read_text()
            return await self.total(view) == expected

        await eventually(shown, what=f"{view} are {expected}")

    async def reads_all(self) -> None:
        async def read() -> bool:
            assert self.process.returncode is None, self.output.read_text()
            try:
                return bool((await self.answers("health")).get("behind") == 0)
            except httpx.TransportError:
                return False

        await eventually(read, what="the worker has read all there is")

    async def end(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        return await asyncio.wait_for(self.process.wait(), 60)


@asynccontextmanager
async def worker(kafka: Broker, output: Path, *arguments: str) -> AsyncIterator[Worker]:
    """A worker that has read all there is. It is killed if a test leaves it running."""
    port = free_port()
    with output.open("wb") as file:
        command = ["surefoot", "statistics", "--kafka", kafka.address, "--port", str(port), *arguments]
        process = await processes.start_async(command, environment=_environment(), stdout=file, stderr=file)
    try:
        running = Worker(process, f"http://127.0.0.1:{port}", output)
        await running.reads_all()
        yield running
    finally:
        await processes.end(process)


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("SUREFOOT_")}


@pytest.mark.kafka
async def test_everything_on_the_topics_is_counted_and_what_is_no_event_stops_nothing(
    kafka: Broker, log: KafkaLog, topic_name: str, tmp_path: Path
) -> None:
    await publish(log, topic_name, 0, event("order.placed", 1), JUNK, TOMBSTONE, event("order.placed", 2))
    topics = ["--topic", topic_name, "--topic", f"{topic_name}.dlq"]
    async with worker(kafka, tmp_path / "output", *topics, "--log-format", "json") as running:
        await running.shows("events", {"order.placed": 2, "not_an_event": 2})

        await publish(log, topic_name, 1, event("order.paid"), event("saga.completed"), event("saga.stuck"))
        await publish(log, topic_name, 2, JUNK, event("order.placed", 3))
        await publish(log, f"{topic_name}.dlq", 1, dead_letter("warehouse", "attempts"), JUNK)
        await publish(log, f"{topic_name}.dlq", 0, dead_letter("warehouse", "permanent"))

        await running.shows(
            "events", {"order.placed": 3, "order.paid": 1, "saga.completed": 1, "saga.stuck": 1, "not_an_event": 3}
        )
        await running.shows("sagas", {"saga.completed": 1, "saga.stuck": 1})
        await running.shows("dead-letters", {"warehouse": 2, "not_an_event": 1})
        await running.shows("dead-letter-reasons", {"attempts": 1, "permanent": 1, "no_reason": 1})
        assert await running.answers("health") == {
            "status": "ok",
            "topics": [topic_name, f"{topic_name}.dlq"],
            "behind": 0,
        }
        assert await running.end(signal.SIGTERM) == 0
    lines = [json.loads(line) for line in running.output.read_text().splitlines()]
    assert [line["event"] for line in lines] == ["statistics start", "statistics stopped"]


@pytest.mark.kafka
async def test_a_worker_that_starts_anew_counts_the_last_hour_again_and_makes_no_topics(
    kafka: Broker, log: KafkaLog, topic_name: str, tmp_path: Path
) -> None:
    group = f"statistics-of-{topic_name}"
    options = ["--topic", topic_name, "--group", group]
    await publish(log, topic_name, 0, event("order.placed", 1), event("order.placed", 2))
    async with worker(kafka, tmp_path / "first", *options) as first:
        await first.shows("events", {"order.placed": 2})
        assert await first.end(signal.SIGINT) == 0
    await publish(log, topic_name, 0, event("order.placed", 3))
    async with worker(kafka, tmp_path / "second", *options) as second:
        await second.shows("events", {"order.placed": 3})
        assert await second.end(signal.SIGTERM) == 0
    async with worker(kafka, tmp_path / "third", *options, "--history", "0") as third:
        await publish(log, topic_name, 0, event("order.paid"))
        await third.shows("events", {"order.paid": 1})
    of_fausts = [f"{group}-statistics-changelog", f"{group}-__assignor-__leader"]
    assert set(await log.describe([topic_name, *of_fausts])) == {topic_name}


@pytest.mark.kafka
async def test_two_workers_both_have_the_whole(kafka: Broker, log: KafkaLog, topic_name: str, tmp_path: Path) -> None:
    async with (
        worker(kafka, tmp_path / "one", "--topic", topic_name) as one,
        worker(kafka, tmp_path / "two", "--topic", topic_name) as two,
    ):
        for partition in range(3):
            await publish(log, topic_name, partition, event("order.placed", partition))
        await one.shows("events", {"order.placed": 3})
        await two.shows("events", {"order.placed": 3})


@pytest.mark.kafka
async def test_a_topic_that_is_missing_is_answered_with_a_sentence(kafka: Broker) -> None:
    code, said = await command("--kafka", kafka.address, "--topic", "no.such", "--port", str(free_port()))
    assert said == ("There is nothing to count in no.such: Kafka has no such topic. Run: surefoot topics create\n")
    assert code == 2


async def test_without_kafka_it_says_so() -> None:
    code, said = await command()
    assert said.startswith("No Kafka was given, and the statistics are counted from Kafka alone.")
    assert code == 2


async def test_a_port_that_is_taken_is_answered_with_a_sentence() -> None:
    server = await asyncio.start_server(lambda _reader, _writer: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        code, said = await command("--kafka", "127.0.0.1:1", "--port", str(port))
    assert said.startswith(f"The statistics cannot be served at 127.0.0.1:{port}: ")
    assert len(said.splitlines()) == 1
    assert code == 2


async def test_without_faust_it_says_what_to_install() -> None:
    start = "import sys; sys.modules['faust'] = None; from surefoot.cli.main import main; main()"
    code, said = await _said("-c", start, "statistics", "--kafka", "127.0.0.1:1")
    assert said == "The statistics run on Faust, which is not installed here: install surefoot[faust].\n"
    assert code == 2


async def test_the_command_is_explained_without_loading_faust() -> None:
    start = "import sys; sys.modules['faust'] = None; from surefoot.cli.main import main; main()"
    done = await asyncio.to_thread(_run, "-c", start, "statistics", "--help")
    assert done.returncode == 0
    assert "/statistics/dead-letters" in done.stdout


async def command(*arguments: str) -> tuple[int, str]:
    return await _said("-m", "surefoot", "statistics", *arguments)


async def _said(*arguments: str) -> tuple[int, str]:
    done = await asyncio.to_thread(_run, *arguments)
    return done.returncode, done.stderr


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=_environment(),
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
