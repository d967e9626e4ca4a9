"""What processes answer at `/livez`, `/readyz` and `/metrics`: blocked, frozen, without their database, stopping."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import asyncpg
import pytest
from cryptography.fernet import Fernet

from schemas import catalogue as shop_catalogue
from surefoot.cli.topics import declared
from surefoot.database.embedded import EmbeddedPostgres
from surefoot.database.migrate import migrate
from surefoot.log.postgres.log import PostgresLog
from tests.support.consumer.processes import create_topics, publish
from tests.support.event_types import ThingHappened
from tests.support.health.asking import asked, right, wrong
from tests.support.health.consumers import BLOCKS
from tests.support.health.impatient import STALLED_S
from tests.support.postgres_servers import postgres
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow  # each starts processes

EVERYWHERE = {"process", "event loop", "database", "schema"}
IMPATIENT = "tests.support.health.impatient"
SLOW = "tests.support.health.consumers:slow"
RELAY = ("surefoot", "relay")
CONSUME = ("surefoot", "consume", SLOW)
KINDS = {
    "relay": (RELAY, {"log", "ownership"}),
    "consumer": (("surefoot", "consume", "consumers.warehouse:warehouse"), {"log", "ownership"}),
    "orchestrator": (("orchestrator",), {"log", "ownership"}),
    "dead letters": (("surefoot", "dlq", "serve", "--port", "0", "--open"), {"log", "ownership", "http"}),
    "services": (("consumers", "warehouse", "shipping"), {"log", "ownership"}),
    "payments": (("surefoot", "services", "payments", "--port", "0", "--open"), {"http"}),
}


@pytest.fixture
async def log(database_url: str) -> AsyncIterator[PostgresLog]:
    log = PostgresLog(database_url)
    await create_topics(log, "test.things", "saga.replies", "dlq.outcomes")
    yield log
    await log.close()


@pytest.fixture
def own_postgres() -> Iterator[EmbeddedPostgres]:
    """A server that these tests may stop."""
    with postgres() as server:
        yield server


@pytest.mark.parametrize("kind", KINDS)
async def test_every_process_answers_at_three_paths_and_at_no_other(
    database_url: str, log: PostgresLog, tmp_path: Path, kind: str
) -> None:
    await log.create(declared(shop_catalogue))
    command, more = KINDS[kind]
    secrets = {"SUREFOOT_IDEMPOTENCY_SECRETS": f'["{Fernet.generate_key().decode()}"]'}
    async with asked(command, database_url, tmp_path, secrets) as process:
        body = await process.says("/readyz", 200)
        assert body["status"] == "ready"
        assert right(body) == EVERYWHERE | more
        assert (await process.says("/livez", 200)) == {"status": "ok"}
        metrics = await process.ask("/metrics")
        assert metrics.status_code == 200
        assert "# TYPE surefoot_" in metrics.text
        assert metrics.headers["content-type"].startswith("text/plain")
        for path in ("/", "/metric", "/metrics/", "/livez/deep", "/healthz", "/favicon.ico"):
            assert (await process.ask(path)).status_code == 404, path
        refused = await process.ask("/livez", "POST")
        assert (refused.status_code, refused.headers["allow"]) == (405, "GET, HEAD")
        for path in ("/livez", "/readyz", "/metrics"):
            head = await process.ask(path, "HEAD")
            assert (head.status_code, head.content) == (200, b"")
            assert int(head.headers["content-length"]) > 0
        assert await process.end() == 0, process.log.read_text()
        assert "Traceback" not in process.log.read_text()


async def test_a_loop_that_a_handler_blocks_is_dead_until_it_turns_again(
    database_url: str, log: PostgresLog, tmp_path: Path
) -> None:
    async with asked((IMPATIENT, "consume", SLOW), database_url, tmp_path) as process:
        await process.says("/readyz", 200)
        assert (await process.ask("/livez")).status_code == 200
        await publish(log, ThingHappened(thing_id="a", number=8, note=BLOCKS))
        body = await process.says("/livez", 503)
        assert body["status"] == "stalled"
        assert body["sentence"].startswith("the event loop has not turned for ")
        not_ready = await process.ask("/readyz")
        assert not_ready.status_code == 503
        assert "event loop" in wrong(not_ready.json())
        assert (await process.ask("/metrics")).status_code == 200
        assert await process.says("/livez", 200) == {"status": "ok"}
        await process.says("/readyz", 200)


async def test_a_process_that_was_frozen_is_not_dead_for_the_time_it_was_frozen(
    database_url: str, log: PostgresLog, tmp_path: Path
) -> None:
    """The handler blocks the loop beyond the thaw: the loop cannot beat before the probes are answered."""
    async with asked((IMPATIENT, "consume", SLOW), database_url, tmp_path) as process:
        await process.says("/readyz", 200)
        await publish(log, ThingHappened(thing_id="a", number=3, note=BLOCKS))
        await _under_way(database_url)
        os.kill(process.process.pid, signal.SIGSTOP)
        asking = [asyncio.create_task(process.ask("/livez")) for _ in range(4)]  # they wait until it goes on
        await asyncio.sleep(1.5 * STALLED_S)
        os.kill(process.process.pid, signal.SIGCONT)
        assert {answer.status_code for answer in await asyncio.gather(*asking)} == {200}
        await process.says("/readyz", 200)


async def test_without_its_database_a_process_is_not_ready_and_with_it_again_it_is(
    own_postgres: EmbeddedPostgres, tmp_path: Path
) -> None:
    url = own_postgres.url
    await migrate(url)
    log = PostgresLog(url)
    await create_topics(log, "test.things", "saga.replies", "dlq.outcomes")
    await log.close()
    async with asked(RELAY, url, tmp_path) as relay, asked(CONSUME, url, tmp_path) as consumer:
        for process in (relay, consumer):
            await process.says("/readyz", 200)
        await asyncio.to_thread(own_postgres.stop)
        for process in (relay, consumer):
            body = await process.is_wrong("database")
            assert body["status"] == "not ready"
            assert (await process.ask("/livez")).status_code == 200
            assert url.partition("@")[0] not in str(body)
            assert "127.0.0.1" not in str(body)
        await asyncio.to_thread(own_postgres.start)
        for process in (relay, consumer):
            await process.says("/readyz", 200)


async def test_a_process_that_is_to_stop_is_not_ready_and_lives_until_it_has_finished(
    database_url: str, log: PostgresLog, tmp_path: Path
) -> None:
    patient = {"SUREFOOT_CONSUMER_HANDOVER": "PT30S"}
    async with asked(CONSUME, database_url, tmp_path, patient) as process:
        await process.says("/readyz", 200)
        await publish(log, ThingHappened(thing_id="a", number=4))
        await _under_way(database_url)
        process.process.send_signal(signal.SIGTERM)
        body = await process.says("/readyz", 503)
        assert wrong(body)["process"] == "the process was asked to stop, and finishes what is under way"
        assert (await process.ask("/livez")).status_code == 200
        assert await process.process.wait() == 0, process.log.read_text()
    assert await _handled(database_url) == 1


async def test_tables_that_this_program_may_not_run_on_make_it_not_ready(
    database_url: str, log: PostgresLog, tmp_path: Path
) -> None:
    async with asked(RELAY, database_url, tmp_path) as process:
        await process.says("/readyz", 200)
        connection = await asyncpg.connect(database_url)
        await connection.execute("UPDATE surefoot.schema_version SET version_num = '9999', oldest_program = '9998'")
        await connection.close()
        body = await process.says("/readyz", 503)
        assert wrong(body).keys() == {"schema"}
        assert "is at version 9999, and takes programs from 9998 on" in wrong(body)["schema"]


async def _under_way(url: str) -> None:
    """The handler has a transaction open."""
    connection = await asyncpg.connect(url)

    async def is_open() -> bool:
        statement = "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction' AND datname = $1"
        return bool(await connection.fetchval(statement, url.rpartition("/")[2]))

    await eventually(is_open, what="the handler runs")
    await connection.close()


async def _handled(url: str) -> int:
    connection = await asyncpg.connect(url)
    count: int = await connection.fetchval("SELECT count(*) FROM surefoot.processed_events WHERE consumer = 'slow'")
    await connection.close()
    return count
