"""The commands, as people run them: as processes. A mistake is answered with a sentence, never with a traceback.

The mistakes are run two at a time before the first test looks at them, because a process takes a while to start.
"""

import asyncio
import json
import os
import re
import shlex
import signal
from collections.abc import AsyncIterator, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import asyncpg
import httpx
import psycopg
import pytest

from surefoot import outbox
from surefoot.cli.topics import declared
from surefoot.database.embedded import EmbeddedPostgres
from surefoot.log.postgres.log import PostgresLog
from tests.support import processes
from tests.support.corpus import each_of
from tests.support.event_types import ThingHappened, catalogue
from tests.support.ports import free_port
from tests.support.processes import Done
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow

NOBODY = "00000000-0000-0000-0000-000000000000"
FAILED_ID = "0192f0c1-7a3e-7c41-9d0a-6f1f0d6f3b11"
CLOSED = "127.0.0.1:1"
TESTS_CATALOGUE = ["--catalogue", "tests.support.event_types:catalogue"]
ROOT = Path(__file__).parents[2]


class Mistake(NamedTuple):
    arguments: str
    says: str
    code: int = 2
    environment: Mapping[str, str] = {}
    database: str | None = "migrated"


MISTAKES = {
    "no database": Mistake("migrate", "No database was given. Say --database", database=None),
    "wrong URL scheme": Mistake("migrate --database mysql://me:secret@x/y", "is not a PostgreSQL URL"),
    "a port that is no number": Mistake("migrate --database postgresql://u:secret@h:port/x", "its port is no number"),
    "migrate, unreachable": Mistake(f"migrate --database postgresql://u:secret@{CLOSED}/x", "does not answer"),
    "outbox, unreachable": Mistake(f"outbox list --database postgresql://u:secret@{CLOSED}/x", "does not answer"),
    "tail, unreachable": Mistake(f"tail x --database postgresql://u:secret@{CLOSED}/x", "does not answer"),
    "topics, unreachable": Mistake(f"topics check --database postgresql://u:secret@{CLOSED}/x", "does not answer"),
    "relay, unreachable": Mistake(f"relay --database postgresql://u:secret@{CLOSED}/x", "does not answer"),
    "doctor, unreachable": Mistake(f"doctor --database postgresql://u:secret@{CLOSED}/x", "does not answer", code=1),
    "outbox, not migrated": Mistake("outbox list", "Run: surefoot migrate", database="empty"),
    "tail, not migrated": Mistake("tail order.events", "Run: surefoot migrate", database="empty"),
    "relay, not migrated": Mistake("relay", "Run: surefoot migrate", database="empty"),
    "doctor, not migrated": Mistake("doctor", "Run: surefoot migrate", code=1, database="empty"),
    "bad schema name": Mistake("migrate --schema Bad-Name", "cannot be the schema"),
    "too many shards": Mistake("migrate --shards 5000", "out of range"),
    "unknown status": Mistake("outbox list --status LOST", "'LOST' is not a status. Choose one of PENDING"),
    "bad uuid": Mistake("outbox show 12", "'12' is not an event id"),
    "unknown id": Mistake(f"outbox show {NOBODY}", f"There is no event {NOBODY}"),
    "retry, unknown id": Mistake(f"outbox retry {NOBODY}", f"There is no event {NOBODY}"),
    "retry of nothing": Mistake("outbox retry", "either an event id, or --all"),
    "retry of one and all": Mistake(f"outbox retry {NOBODY} --all", "either an event id, or --all"),
    "release without reason": Mistake(f"outbox release {NOBODY}", "Say why, with --reason"),
    "release with a blank reason": Mistake(f"outbox release {NOBODY} --reason ' '", "Say why, with --reason"),
    "unknown topic": Mistake("tail no.such", "no topic 'no.such'"),
    "bad catalogue reference": Mistake("topics create --catalogue nonsense", "say package.module:attribute"),
    "no such module": Mistake("topics create --catalogue no.such:thing", "There is no module no.such"),
    "no catalogue": Mistake("topics create --catalogue os:path", "is a module and no Catalogue"),
    "topics, no Kafka": Mistake(f"topics check --kafka {CLOSED}", f"Kafka at {CLOSED} cannot be used"),
    "tail, no Kafka": Mistake(f"tail x --kafka {CLOSED}", f"Kafka at {CLOSED} cannot be used"),
    "doctor, no Kafka": Mistake(f"doctor --kafka {CLOSED}", f"Kafka at {CLOSED} cannot be used", code=1),
    "bad Kafka setting": Mistake(
        f"tail x --kafka {CLOSED}",
        "SUREFOOT_KAFKA_SECURITY_PROTOCOL cannot be used",
        environment={"SUREFOOT_KAFKA_SECURITY_PROTOCOL": "ROT13"},
    ),
    "bad setting": Mistake(
        "relay", "SUREFOOT_RELAY_LEASE cannot be used", environment={"SUREFOOT_RELAY_LEASE": "nonsense"}
    ),
    "settings that contradict": Mistake(
        "relay",
        "heartbeat 0:00:20 is too slow for a lease of 0:00:10",
        environment={"SUREFOOT_RELAY_HEARTBEAT": "PT20S"},
    ),
}


def run(arguments: list[str], url: str | None = None, **environment: str) -> Done:
    return processes.run(["surefoot", *arguments], environment=_environment(url, environment))


def _environment(url: str | None, more: Mapping[str, str]) -> dict[str, str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("SUREFOOT_")}
    return {**clean, **({"SUREFOOT_DATABASE": url} if url else {}), **more}


@pytest.fixture(scope="module")
def answers(postgres_server: EmbeddedPostgres, _template: str) -> Iterator[Mapping[str, Done]]:
    """What the commands said to each mistake. The shared databases are read only by all of them."""
    base = postgres_server.url.removesuffix("/postgres")
    urls = {None: None, "migrated": f"{base}/{_template}", "empty": postgres_server.url}
    with ThreadPoolExecutor(2) as two:
        running = {
            name: two.submit(run, shlex.split(mistake.arguments), urls[mistake.database], **mistake.environment)
            for name, mistake in MISTAKES.items()
        }
        yield {name: done.result() for name, done in running.items()}


@each_of("name", MISTAKES)
def test_a_mistake_is_answered_with_a_sentence(name: str, answers: Mapping[str, Done]) -> None:
    mistake, done = MISTAKES[name], answers[name]
    assert mistake.says in done.out + done.err
    assert done.code == mistake.code
    assert "Traceback" not in done.err
    assert "secret" not in done.out + done.err
    if mistake.code == 2:
        assert len(done.err.splitlines()) == 1
        assert done.out == ""


@pytest.fixture
def failed_row(database_url: str) -> Iterator[psycopg.Connection]:
    """A row the relay gave up on, whose key looks like markup, and one that waits behind it."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        for event_id, status, attempts in ((FAILED_ID, "FAILED", 5), (NOBODY, "PENDING", 0)):
            connection.execute(
                """INSERT INTO surefoot.outbox_events
                       (event_id, shard, key_hash, topic, event_type, key, body, headers, status, attempts, last_error)
                   VALUES (%s, 0, 0, 'order.events', 'order.paid', '[/a] key', '{"paid": true}', '[["ce_id", "[/b]"]]',
                           %s::surefoot.outbox_status, %s, 'It is too large.')""",
                [event_id, status, attempts],
            )
        yield connection


def test_migrating_twice_changes_nothing(empty_database_url: str) -> None:
    for _ in range(2):
        done = run(["migrate"], empty_database_url)
        assert done.code == 0
        assert done.out.endswith("is at version 0006.\n")
    assert "postgres:…@" in done.out.replace("\n", "")


def test_topics_are_missing_then_created_then_as_declared(database_url: str) -> None:
    missing = run(["topics", "check", *TESTS_CATALOGUE], database_url)
    assert (missing.code, missing.err) == (1, "")
    assert "The topic test.things does not exist" in missing.out
    created = run(["topics", "create", *TESTS_CATALOGUE], database_url)
    assert created.code == 0
    assert "created  test.things  8 partitions, kept 7 days" in created.out
    assert "created  test.things.dlq  8 partitions, kept 30 days" in created.out
    assert run(["topics", "check", *TESTS_CATALOGUE], database_url).code == 0


def test_failed_rows_are_listed_and_shown_whatever_is_in_them(
    database_url: str, failed_row: psycopg.Connection
) -> None:
    listed = run(["outbox", "list"], database_url)
    assert listed.code == 0
    assert f"{FAILED_ID}  order.paid  topic order.events  key [/a] key  attempts 5" in listed.out
    assert "  It is too large.\n" in listed.out
    shown = run(["outbox", "show", FAILED_ID], database_url)
    assert shown.code == 0
    assert f"order.paid {FAILED_ID}: FAILED after 5 attempts\nIt is too large.\n" in shown.out
    assert "1 events wait behind it on this key" in shown.out
    assert '[["ce_id", "[/b]"]]' in shown.out
    assert '"paid": true' in shown.out


def test_a_retry_is_recorded_with_name_and_reason_and_done_once(
    database_url: str, failed_row: psycopg.Connection
) -> None:
    retry = ["outbox", "retry", FAILED_ID, "--by", "Ada", "--reason", "the limit was raised"]
    done = run(retry, database_url)
    assert (done.code, done.out) == (0, "1 row will be tried again.\n")
    row = _row(failed_row)
    assert row[:2] == ("PENDING", 0)
    assert re.fullmatch(r"\S+Z retried by Ada: the limit was raised", row[2])
    again = run(retry, database_url)
    assert again.code == 2
    assert again.err.startswith(f"The event {FAILED_ID} is PENDING, not FAILED: there is nothing to decide.")
    assert _row(failed_row) == row


def test_a_release_is_recorded_with_name_and_reason_and_done_once(
    database_url: str, failed_row: psycopg.Connection
) -> None:
    release = ["outbox", "release", FAILED_ID, "--by", "Ada", "--reason", "nobody needs it"]
    done = run(release, database_url)
    assert done.code == 0
    row = _row(failed_row)
    assert row[:2] == ("RELEASED", 5)
    assert re.fullmatch(r"\S+Z released by Ada: nobody needs it", row[2])
    again = run(release, database_url)
    assert again.code == 2
    assert again.err.startswith(f"The event {FAILED_ID} is RELEASED, not FAILED: there is nothing to decide.")
    assert _row(failed_row) == row


def test_all_failed_rows_of_a_topic_can_be_retried(database_url: str, failed_row: psycopg.Connection) -> None:
    other = run(["outbox", "retry", "--all", "--topic", "other.events"], database_url)
    assert (other.code, other.out) == (0, "0 rows will be tried again.\n")
    ours = run(["outbox", "retry", "--all", "--topic", "order.events"], database_url)
    assert (ours.code, ours.out) == (0, "1 row will be tried again.\n")


def _row(connection: psycopg.Connection) -> tuple[str, int, str]:
    found = connection.execute(
        "SELECT status::text, attempts, decision FROM surefoot.outbox_events WHERE event_id = %s", [FAILED_ID]
    ).fetchone()
    assert found is not None
    return found[0], found[1], found[2]


async def test_the_doctor_warns_when_no_relay_runs(database_url: str, topics: None) -> None:
    done = await off_loop(["doctor", *TESTS_CATALOGUE], database_url)
    assert done.code == 0
    assert "! No relay is running" in done.out


def test_the_doctor_reports_failed_rows(database_url: str, failed_row: psycopg.Connection) -> None:
    done = run(["doctor", *TESTS_CATALOGUE], database_url)
    assert done.code == 1
    assert "✗ 1 outbox event(s) are FAILED, and their keys are held." in done.out


@pytest.fixture
async def topics(database_url: str) -> None:
    log = PostgresLog(database_url)
    await log.create(declared(catalogue))
    await log.close()


class Running(NamedTuple):
    process: processes.AsyncChild
    log: Path

    def lines(self) -> list[str]:
        return self.log.read_text().splitlines()

    async def says(self, text: str) -> None:
        async def said() -> bool:
            assert self.process.returncode is None, self.log.read_text()
            return text in self.log.read_text()

        await eventually(said, what=f"the relay says {text!r}")

    async def end(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        return await asyncio.wait_for(self.process.wait(), 60)


@asynccontextmanager
async def relay(url: str, log: Path, *arguments: str) -> AsyncIterator[Running]:
    """A relay that owns its shards. It is killed if a test leaves it running."""
    with log.open("wb") as output:
        environment = _environment(url, {"SUREFOOT_RELAY_HOUSEKEEPING": "PT0.2S"})
        command = ["surefoot", "relay", *arguments]
        process = await processes.start_async(command, environment=environment, stdout=output, stderr=output)
    try:
        running = Running(process, log)
        await running.says("shards")
        yield running
    finally:
        await processes.end(process)


async def test_a_relay_publishes_serves_metrics_and_stops_on_a_term_signal(
    database_url: str, topics: None, tmp_path: Path
) -> None:
    port = free_port()
    async with relay(database_url, tmp_path / "log", "--metrics-port", str(port), "--log-format", "json") as running:
        await _add(database_url, "k1")
        healthy = await off_loop(["doctor", *TESTS_CATALOGUE], database_url)
        assert healthy.code == 0, healthy.out
        assert "✓ 1 relay(s) own all 8 shards." in healthy.out

        async def served() -> str:
            async with httpx.AsyncClient() as client:
                text = (await client.get(f"http://127.0.0.1:{port}/metrics")).text
            return text if 'surefoot_relay_published_total{topic="test.things"} 1.0' in text else ""

        metrics = await eventually(served, what="the metrics say that one row was published")
        assert re.search(r"^surefoot_relay_oldest_unpublished_seconds \d", metrics, re.MULTILINE)

        taken = await off_loop(["relay", "--metrics-port", str(port)], database_url)
        assert (taken.code, len(taken.err.splitlines())) == (2, 1)
        assert taken.err.startswith(f"Metrics cannot be served on port {port}")

        tail = await off_loop(["tail", "test.things", "--from-start", "--no-follow"], database_url)
        assert tail.code == 0
        assert re.fullmatch(r'\d/0  thing\.happened  k1  \{"thing_id": "k1", "number": 0, "note": ""\}\n', tail.out)

        assert await running.end(signal.SIGTERM) == 0
    lines = [json.loads(line) for line in running.lines()]
    assert lines[0]["event"] == "relay starts"
    assert lines[-1]["event"] == "relay stopped; its shards are free for others"
    assert database_url not in running.log.read_text()


async def test_a_relay_stops_cleanly_on_ctrl_c(database_url: str, tmp_path: Path) -> None:
    async with relay(database_url, tmp_path / "log") as running:
        assert await running.end(signal.SIGINT) == 0
    assert "relay stopped; its shards are free for others" in running.lines()[-1]
    assert "Traceback" not in running.log.read_text()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_relay_that_gets_a_signal_as_soon_as_it_says_that_it_starts_stops_cleanly(
    database_url: str, number: signal.Signals
) -> None:
    command = ["tests.support.interrupted_command", number.name, "relay starts", "relay"]
    done = processes.run(command, environment=_environment(database_url, {}))
    assert done.code == 0, done.err
    assert "relay stopped; its shards are free for others" in done.err.splitlines()[-1]
    assert "Traceback" not in done.err


async def _add(url: str, key: str) -> None:
    connection = await asyncpg.connect(url)
    async with outbox.transaction(connection) as tx:
        tx.add(ThingHappened(thing_id=key))
    await connection.close()


async def off_loop(arguments: list[str], url: str) -> Done:
    return await asyncio.to_thread(run, arguments, url)
