"""`surefoot parked`, as operators run it: what waits and why, and how to have it tried now or again."""

import base64
import re
from datetime import timedelta

import asyncpg
import pytest

from surefoot.consumer import Consumer, OutsideCall, Retry, Transaction
from surefoot.events import Event, EventData
from surefoot.log.port import Record, TopicPartition
from surefoot.log.postgres.log import PostgresLog
from tests.support.command_line import assert_says, surefoot
from tests.support.consumer.controls import Mendable, outcome, settled_as
from tests.support.consumer.effects import effects, have_effect
from tests.support.consumer.processes import consumer_running, publish, publish_records
from tests.support.event_types import ThingHappened
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow

AN_HOUR = Retry(attempts=5, first=timedelta(hours=1), longest=timedelta(hours=1))


class Stubborn:
    """Fails and rests for an hour, until it is mended."""

    def __init__(self, name: str = "warehouse") -> None:
        self.broken = True
        self.consumer = Consumer(name, retry=AN_HOUR)
        self.consumer.on(ThingHappened)(self.handle)

    async def handle(self, event: Event[ThingHappened], tx: Transaction) -> None:
        if self.broken:
            raise ValueError(f"Shelf {event.data.number} is full.")
        await have_effect(event, tx)


async def kill(
    url: str, connection: asyncpg.Connection, log: PostgresLog, *numbers: int
) -> tuple[Mendable, list[Event[EventData]]]:
    """The first of the key `a` is dead, the others wait behind it."""
    shop = Mendable(numbers[0])
    events = await publish(log, *(ThingHappened(thing_id="a", number=n) for n in numbers))
    async with consumer_running(shop.consumer, url, log):
        await settled_as(connection, events[:1], "DEAD")
        await settled_as(connection, events[1:], "PARKED")
    return shop, events


async def test_nothing_parked_is_said_so(database_url: str) -> None:
    done = await surefoot("parked", "list", "--database", database_url)
    assert (done.code, done.out) == (0, "Nothing is parked: no key waits.\n")


async def test_the_list_says_in_words_what_each_key_waits_for(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    _, dead = await kill(database_url, connection, log, 1, 2, 3)
    billing, calling = Stubborn("billing"), Consumer("calling", retry=AN_HOUR)
    released = Mendable(7, when_dead="release")
    released.consumer.name = "released"

    async def call(event: Event[ThingHappened], _: OutsideCall) -> None:
        raise TimeoutError("No answer.")

    @calling.on(ThingHappened, outside=call)
    async def finish(event: Event[ThingHappened], tx: Transaction, result: None) -> None: ...

    (late,) = await publish(log, ThingHappened(thing_id="b [x]", number=7))
    for consumer in (billing.consumer, calling, released.consumer):
        async with consumer_running(consumer, database_url, log):
            await settled_as(connection, [late], "DEAD" if consumer.name == "released" else "PARKED", consumer.name)
            await eventually(lambda: attempted(connection, late), what="an attempt was made")

    done = await surefoot("parked", "list", "--database", database_url)
    assert done.code == 0
    lines = {line.split()[0]: line for line in done.out.splitlines() if "key b [x]" in line}
    assert re.search(r"tried again in [3-6]\d min", lines["billing"])  # half an hour to an hour
    assert re.search(r"waiting for an outside call, made again in [3-6]\d min", lines["calling"])
    assert "dead, its key goes on (released)" in lines["released"]
    assert f"warehouse  {topic}  key a  dead, holds its key  2 behind it" in done.out
    assert f"  {dead[0].id}  thing.happened  attempts 1" in done.out
    assert "  Number 1 cannot be had." in done.out
    assert "  Shelf 7 is full." in done.out

    filtered = await surefoot(
        "parked", "list", "--database", database_url, "--state", "dead", "--consumer", "warehouse"
    )
    assert filtered.out.count("attempts ") == 1
    assert "warehouse" in filtered.out
    limited = await surefoot("parked", "list", "--database", database_url, "--limit", "1", "--topic", topic)
    assert "There may be more: these are the first 1" in limited.out
    nothing = await surefoot("parked", "list", "--database", database_url, "--topic", "other")
    assert nothing.out == "Nothing that fits is parked.\n"


async def test_the_list_of_a_state_has_the_first_event_of_each_key_that_is_in_it(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    _, events = await kill(database_url, connection, log, 1, 2, 3)
    done = await surefoot("parked", "list", "--database", database_url, "--state", "WAITING")
    assert done.out.splitlines() == [
        f"warehouse  {topic}  key a  waiting for its turn  1 behind it",
        f"  {events[1].id}  thing.happened  attempts 0",
    ]


async def test_show_tells_everything_by_id_or_by_place(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    _, events = await kill(database_url, connection, log, 1, 2, 3)
    done = await surefoot("parked", "show", events[0].id, "--database", database_url)
    assert done.code == 0
    assert done.out.splitlines()[:2] == [
        f"thing.happened {events[0].id} of warehouse: dead, holds its key",
        "Number 1 cannot be had.",
    ]
    for part in (
        "state DEAD (permanent), attempts 1, replays 0",
        "key a, source /tests",
        "failed attempts, latest last",
        f"ce_id: {events[0].id}",
        "content-type: application/json",
        '{\n  "thing_id": "a",\n  "number": 1,\n  "note": ""\n}',
        "waiting behind it: 2",
        f"{events[2].id}  thing.happened  {topic}/",
    ):
        assert part in done.out, part
    place = next(line.split()[1].rstrip(",") for line in done.out.splitlines() if line.startswith("place "))
    assert (await surefoot("parked", "show", place, "--database", database_url)).out == done.out


async def test_a_record_that_is_no_event_is_shown_in_base64(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    raw = b"\xff\x00\x1b[31m"
    await publish_records(log, {TopicPartition(topic, 3): [Record(b"k\x1b", raw, [("odd", b"\xfe")])]})
    async with consumer_running(Mendable().consumer, database_url, log):
        await eventually(lambda: connection.fetchrow("SELECT event_id FROM surefoot.parked_events"), what="it is dead")
    done = await surefoot("parked", "show", f"{topic}/3:0", "--database", database_url)
    assert done.code == 0, done.err
    assert base64.b64encode(raw).decode() in done.out
    assert "odd: (Base64) /g==" in done.out
    assert "\x1b" not in done.out
    by_id = await surefoot("parked", "show", f"{topic}/3/0", "--database", database_url)
    assert by_id.out == done.out


async def test_a_waiting_event_is_tried_at_once_when_told_so(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    stubborn = Stubborn()
    events = await publish(log, *(ThingHappened(thing_id="a", number=n) for n in (1, 2)))
    async with consumer_running(stubborn.consumer, database_url, log):
        await settled_as(connection, events, "PARKED")
        stubborn.broken = False
        done = await surefoot("parked", "retry", "--key", "a", "--consumer", "warehouse", "--database", database_url)
        assert done.code == 0, done.err
        assert "It is tried within a second" in done.out
        await settled_as(connection, events, "PROCESSED")
    assert await effects(connection) == [1, 2]


async def test_a_dead_event_is_tried_again_only_with_a_reason_which_is_kept(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    shop, events = await kill(database_url, connection, log, 1, 2)
    refused = await surefoot("parked", "retry", events[0].id, "--database", database_url)
    assert_says(refused, 'If the cause is mended, say why it is tried again: --reason "…"')
    assert "surefoot dlq replay" in refused.err
    blank = await surefoot("parked", "retry", events[0].id, "--reason", " ", "--database", database_url)
    assert_says(blank, "--reason")
    assert await outcome(connection, events[0]) == "DEAD"

    shop.broken.clear()
    async with consumer_running(shop.consumer, database_url, log):
        words = ("--reason", "the catalogue is mended", "--by", "ada")
        done = await surefoot("parked", "retry", events[0].id, *words, "--database", database_url)
        assert done.code == 0, done.err
        assert "It is no longer dead" in done.out
        await settled_as(connection, events, "PROCESSED")
    assert await effects(connection) == [1, 2]
    decision = await connection.fetchval(
        "SELECT decision FROM surefoot.processed_events WHERE event_id = $1", events[0].id
    )
    assert decision.endswith("Z retried by ada: the catalogue is mended")
    again = await surefoot("parked", "retry", events[0].id, *words, "--database", database_url)
    assert_says(again, f"The event {events[0].id} is not parked: warehouse has it as PROCESSED since 20")


async def test_a_revived_event_that_fails_again_is_dead_again_with_its_replay_counted(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    shop, events = await kill(database_url, connection, log, 1, 2)
    words = ("--reason", "let us see", "--by", "ada", "--database", database_url)
    assert (await surefoot("parked", "retry", events[0].id, *words)).code == 0
    assert await outcome(connection, events[0]) == "PARKED"
    sooner = await surefoot("parked", "retry", events[0].id, *words)
    assert "It is tried within a second" in sooner.out  # it is no longer dead: nothing is decided twice
    async with consumer_running(shop.consumer, database_url, log):
        await settled_as(connection, events[:1], "DEAD")
    row = await connection.fetchrow("SELECT replays, attempts FROM surefoot.parked_events WHERE state = 'DEAD'")
    assert tuple(row) == (1, 2)
    shown = await surefoot("parked", "show", events[0].id, "--database", database_url)
    assert "retried by ada: let us see" in shown.out
    assert shown.out.count("retried by ada") == 1


async def test_an_event_that_waits_for_its_turn_names_the_one_to_retry(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    _, events = await kill(database_url, connection, log, 1, 2)
    done = await surefoot("parked", "retry", events[1].id, "--reason", "now", "--database", database_url)
    assert_says(done, f"only waits for its turn: first of its key is {events[0].id}")


async def test_an_event_of_two_consumers_needs_to_know_which(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str
) -> None:
    (event,) = await publish(log, ThingHappened(thing_id="a", number=1))
    for name in ("warehouse", "billing"):
        async with consumer_running(Stubborn(name).consumer, database_url, log):
            await settled_as(connection, [event], "PARKED", name)
    shown = await surefoot("parked", "show", event.id, "--database", database_url)
    assert shown.out.count(f"thing.happened {event.id} of ") == 2
    done = await surefoot("parked", "retry", event.id, "--database", database_url)
    assert_says(done, "2 parked events fit")
    done = await surefoot("parked", "retry", "--key", "a", "--database", database_url)
    assert_says(done, "Say --consumer, --topic or the event's id")
    done = await surefoot("parked", "retry", "--key", "a", "--consumer", "billing", "--database", database_url)
    assert done.code == 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["list", "--state", "lost"], "'lost' is not a state. Choose one of WAITING, DUE, CALLING, DEAD."),
        (["show", "no-such"], "No event no-such is parked, and the inbox does not know it."),
        (["show", "x/1:5"], "Nothing is parked at x/1:5: it was handled, or not read yet."),
        (["retry", "no-such", "--consumer", "w"], "No event no-such is parked for w, and the inbox does not know it."),
        (["retry", "--key", "k"], "Nothing waits on the key 'k'."),
        (["retry"], "Say which: either an event (its id or its place), or --key."),
        (["retry", "x", "--key", "k"], "Say which: either an event (its id or its place), or --key."),
    ],
)
async def test_a_mistake_is_answered_with_a_sentence(database_url: str, arguments: list[str], says: str) -> None:
    assert_says(await surefoot("parked", *arguments, "--database", database_url), says)


async def test_no_database_or_one_without_tables_is_said_so(empty_database_url: str) -> None:
    assert_says(await surefoot("parked", "list"), "No database was given. Say --database")
    away = "postgresql://u:secret@127.0.0.1:1/x"
    assert_says(await surefoot("parked", "list", "--database", away), "does not answer")
    assert_says(await surefoot("parked", "list", "--database", empty_database_url), "Run: surefoot migrate")


async def attempted(connection: asyncpg.Connection, event: Event[EventData]) -> bool:
    found = await connection.fetch("SELECT attempts FROM surefoot.parked_events WHERE event_id = $1", event.id)
    return all(row[0] > 0 for row in found)
