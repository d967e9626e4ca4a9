"""`surefoot consume`, as people run it: it teaches, says what is wrong, shows each event, ends cleanly."""

import json
import re
import signal
from pathlib import Path

import asyncpg
import pytest

from surefoot.events import new_event
from surefoot.log.postgres.log import PostgresLog
from tests.support.command_line import assert_says, surefoot
from tests.support.consumer.controls import settled_as
from tests.support.consumer.effects import effects
from tests.support.consumer.processes import create_topics, publish, start_consumer
from tests.support.event_types import ThingHappened, ThingPaid
from tests.support.relay.processes import spec
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow

FLOOR = "tests.support.consumer.named_consumers"
WAREHOUSE = f"{FLOOR}:warehouse"
CLOSED = "postgresql://u:secret@127.0.0.1:1/x"


@pytest.fixture
async def topics(log: PostgresLog) -> None:
    await create_topics(log, "test.things", "saga.replies", "dlq.outcomes")


async def test_the_help_says_what_it_does_and_how_to_set_it() -> None:
    done = await surefoot("consume", "--help")
    assert done.code == 0
    text = re.sub(r"[\s│]+", " ", done.out)
    for part in (
        "package.module:name",
        "--once",
        "--from",
        "TOPIC/PARTITION:OFFSET",
        "SUREFOOT_CONSUMER_BATCH_RECORDS",
    ):
        assert part in text


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([WAREHOUSE], "No database was given. Say --database"),
        ([WAREHOUSE, "--database", CLOSED], "does not answer"),
        (["floor", "--database", CLOSED], "names nothing that can be loaded: say package.module:attribute"),
        ([f"{FLOOR}x:warehouse", "--database", CLOSED], "There is no module"),
        ([f"{FLOOR}:nothing", "--database", CLOSED], "has no nothing"),
        ([f"{FLOOR}:three", "--database", CLOSED], "is a int and no Consumer: name the object"),
        ([WAREHOUSE, "--database", CLOSED, "--from", "yesterday"], "is neither start, nor end, nor a place such as"),
    ],
)
async def test_a_mistake_is_answered_with_a_sentence(arguments: list[str], says: str) -> None:
    done = await surefoot("consume", *arguments)
    assert_says(done, says)
    assert "secret" not in done.err


async def test_a_bad_setting_is_answered_by_its_name_in_the_environment(database_url: str) -> None:
    settings = {"SUREFOOT_CONSUMER_BATCH_RECORDS": "0", "SUREFOOT_CONSUMER_HANDLER_TIMEOUT": "soon"}
    done = await surefoot("consume", WAREHOUSE, "--database", database_url, environment=settings)
    assert_says(done, "SUREFOOT_CONSUMER_BATCH_RECORDS cannot be used")
    assert "SUREFOOT_CONSUMER_HANDLER_TIMEOUT cannot be used" in done.err


async def test_a_consumer_without_handlers_is_not_run(database_url: str, topics: None) -> None:
    done = await surefoot("consume", f"{FLOOR}:idle", "--database", database_url)
    assert_says(done, "The consumer idle has no handlers, so there is nothing to run.")


async def test_a_database_that_is_not_migrated_is_told_so(empty_database_url: str) -> None:
    done = await surefoot("consume", WAREHOUSE, "--database", empty_database_url)
    assert_says(done, "Run: surefoot migrate")


async def test_missing_topics_are_named_and_the_dead_letter_topic_is_one(database_url: str, log: PostgresLog) -> None:
    done = await surefoot("consume", WAREHOUSE, "--database", database_url)
    assert_says(done, "The log has no topic test.things, test.things.dlq, which warehouse needs")
    await log.create([spec("test.things")])
    done = await surefoot("consume", WAREHOUSE, "--database", database_url)
    assert_says(done, "The log has no topic test.things.dlq, which warehouse needs. Run: surefoot topics create")


async def test_from_must_name_a_partition_that_it_reads(database_url: str, topics: None) -> None:
    done = await surefoot("consume", WAREHOUSE, "--database", database_url, "--from", "other.things/0:1")
    assert_says(done, "names the topic other.things, which warehouse does not read: it reads test.things")
    done = await surefoot("consume", WAREHOUSE, "--database", database_url, "--from", "test.things/9:1")
    assert_says(done, "names the partition test.things/9, and the topic has no such one")
    done = await surefoot("consume", WAREHOUSE, "--database", database_url, "--from", "test.things/0:1", "--once")
    assert_says(done, "--from test.things/0:1 is not in the log, which has offsets 0 to 0")


async def test_once_shows_what_became_of_each_event_and_ends(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topics: None
) -> None:
    first = new_event(ThingHappened(thing_id="a", number=1))
    paid = ThingPaid.model_validate({"thing_id": "a", "price": {"minor_units": 100, "currency": "EUR"}})
    await publish(log, first, first, paid)
    await publish(log, ThingHappened(thing_id="a", number=13), ThingHappened(thing_id="a", number=2))

    done = await surefoot("consume", WAREHOUSE, "--database", database_url, "--once")

    assert done.code == 0, done.err
    lines = [line for line in done.err.splitlines() if "at=test.things/" in line]
    shown = [re.sub(r"^\S+ \[debug +\] ", "", line) for line in lines]
    partition = re.search(r"at=test\.things/(\d):0", shown[0])
    assert partition is not None
    at = f"at=test.things/{partition[1]}"
    assert shown == [
        f"handled {at}:0 event_type=thing.happened key=a",
        f"duplicate: seen before {at}:1 event_type=thing.happened key=a",
        f"ignored: no handler for it {at}:2 event_type=thing.paid",
        f"parked behind its key {at}:4 event_type=thing.happened key=a",
    ]
    assert "warehouse gave up on a thing.happened event after 1 attempt(s): Thirteen is not put away." in done.err
    assert "its partitions are free for others" in done.err
    assert await effects(connection) == [1]

    again = await surefoot("consume", WAREHOUSE, "--database", database_url, "--once")
    assert again.code == 0
    assert "at=test.things/" not in again.err


async def test_once_finishes_the_outside_calls_it_began(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topics: None
) -> None:
    await connection.execute("CREATE TABLE calls (key text, attempt int, prepared text)")
    await publish(log, *(ThingHappened(thing_id=f"k{n}", number=n) for n in range(5)))
    done = await surefoot(
        "consume",
        "tests.support.consumer.outside_provider:payments",
        *("--database", database_url, "--once"),
        # The calls take longer than a consumer that is told to stop would wait for them.
        environment={
            "SUREFOOT_TEST_PROVIDER": database_url,
            "SUREFOOT_TEST_PROVIDER_TAKES_S": "1.5",
            "SUREFOOT_CONSUMER_HANDOVER": "PT0.1S",
        },
    )
    assert done.code == 0, done.err
    assert sorted(await effects(connection)) == [0, 1, 2, 3, 4]
    assert done.err.count("prepared: its outside call is next") == 5
    assert done.err.count("handled after it was parked") == 5


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_it_cleanly_and_frees_its_partitions(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topics: None, tmp_path: Path, number: int
) -> None:
    (event,) = await publish(log, ThingHappened(thing_id="a", number=1))
    process = await start_consumer(WAREHOUSE, database_url, None, tmp_path / "consumer.log")
    await settled_as(connection, [event], "PROCESSED")
    process.signal(number)
    assert await process.ended() == 0
    said = process.log.read_text()
    assert "consumer starts" in said
    assert "consumer stopped; its partitions are free for others" in said
    assert "Traceback" not in said
    assert "handled" not in said  # a line for each event is for those who ask for it


async def test_it_logs_json_when_asked(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topics: None
) -> None:
    await publish(log, ThingHappened(thing_id="a", number=1))
    done = await surefoot("consume", WAREHOUSE, "--database", database_url, "--once", "--log-format", "json")
    lines = [json.loads(line) for line in done.err.splitlines()]
    (handled,) = [line for line in lines if line["event"] == "handled"]
    assert (handled["level"], handled["event_type"], handled["key"]) == ("debug", "thing.happened", "a")
    assert lines[0]["event"] == "consumer starts"
    assert lines[-1]["event"].startswith("consumer stopped")


async def test_a_gap_ends_it_with_the_words_to_go_on(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topics: None
) -> None:
    await publish(log, *(ThingHappened(thing_id="a", number=n) for n in (1, 2)))
    await surefoot("consume", WAREHOUSE, "--database", database_url, "--once")
    await publish(log, ThingHappened(thing_id="a", number=3))
    await connection.execute("UPDATE surefoot.log_topics SET retention = interval '0' WHERE topic = 'test.things'")
    await log.expire()
    done = await surefoot("consume", WAREHOUSE, "--database", database_url, "--once")
    assert_says(done, "1 offset(s) were removed before they were read")
    words = re.search(r"say (--from) (\S+) to go on", done.err)
    assert words is not None
    done = await surefoot("consume", WAREHOUSE, "--database", database_url, "--once", *words.groups())
    assert done.code == 0, done.err
    await eventually(lambda: effects(connection), what="there are effects")
    assert await effects(connection) == [1, 2]
