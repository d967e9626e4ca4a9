"""What a consumer tells those who watch: counters, gauges, and the trace that runs through its handlers."""

import asyncio
from collections.abc import Iterator
from datetime import timedelta

import asyncpg
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import REGISTRY

from surefoot.consumer import Consumer, Permanent, Transaction, Transient
from surefoot.events import Event, Money, new_event
from surefoot.log.postgres.log import PostgresLog
from tests.support.consumer.effects import have_effect
from tests.support.consumer.failures import AT_ONCE, NOT_SOON, keys_together, settled, worked_off
from tests.support.consumer.processes import consumer_running, publish
from tests.support.event_types import ThingHappened, ThingPaid
from tests.support.waiting import eventually

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = f"00-{TRACE}-00f067aa0ba902b7-01"


def sample(name: str, labels: dict[str, str]) -> float | None:
    """One value, without collecting every metric of the process each time a test looks."""
    for metric in REGISTRY.restricted_registry([name]).collect():
        for found in metric.samples:
            if (found.name, found.labels) == (name, labels):
                return found.value
    return None


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    """Spans are recorded while the test runs. The provider can be set only once in a process, so it is lent."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    yield exporter
    provider.shutdown()


async def test_counters_move_with_what_is_done(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str, topic_name: str
) -> None:
    consumer = Consumer(f"counted-{topic_name}", retry=AT_ONCE)

    @consumer.on(ThingHappened)
    async def handle(event: Event[ThingHappened], tx: Transaction) -> None:
        if event.data.number == 1:
            raise Permanent("never")
        if event.data.number == 2:
            raise Transient("not now")

    keys = keys_together(6)
    events = await publish(log, *(ThingHappened(thing_id=keys[n], number=n) for n in range(5)))
    price = Money(1, "EUR")
    await publish(log, events[0], events[0], ThingPaid(thing_id=keys[5], price=price))
    async with consumer_running(consumer, database_url, log):
        await worked_off(connection, 8)
        await settled(connection, consumer.name, PROCESSED=3, DEAD=2)

        def value(name: str, **labels: str) -> float | None:
            return sample(f"surefoot_consumer_{name}", {"consumer": consumer.name, **labels})

        assert value("processed_total", topic=topic) == 3
        assert value("duplicates_total", topic=topic) == 2
        assert value("ignored_total", topic=topic) == 1
        assert value("parked_total", topic=topic) == 1
        assert value("dead_total", topic=topic, reason="permanent") == 1
        assert value("dead_total", topic=topic, reason="out_of_attempts") == 1
        assert value("failed_attempts_total", event_type="thing.happened") == 1 + AT_ONCE.attempts
        assert (value("handler_seconds_count", event_type="thing.happened") or 0) >= 3 + 1 + AT_ONCE.attempts
        assert (value("batches_total", result="committed") or 0) >= 1
        assert (value("batches_total", result="rolled_back") or 0) >= 2
        assert (value("batch_seconds_count") or 0) >= 1
        assert value("partitions_owned") == 8
        assert (value("heartbeat_timestamp_seconds") or 0) > 0
    assert value("partitions_owned") == 0


async def test_gauges_tell_of_parked_keys_and_how_long_the_first_has_waited(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str, topic_name: str
) -> None:
    consumer = Consumer(f"gauged-{topic_name}", retry=NOT_SOON)
    labels = {"consumer": consumer.name, "topic": topic}

    @consumer.on(ThingHappened)
    async def handle(event: Event[ThingHappened], tx: Transaction) -> None:
        raise Transient("not now")

    await publish(log, *(ThingHappened(thing_id=f"key-{n % 3}", number=n) for n in range(9)))
    async with consumer_running(consumer, database_url, log):

        async def three_keys() -> bool:
            return sample("surefoot_consumer_parked_keys", labels) == 3

        async def growing() -> bool:
            return (sample("surefoot_consumer_oldest_parked_seconds", labels) or 0) > 0.2

        await worked_off(connection, 9)  # what is parked later would wait for good
        await eventually(three_keys, what="three keys wait")
        await eventually(growing, what="the first has waited for a while")
        await connection.execute("DELETE FROM surefoot.parked_events")

        async def none_left() -> bool:
            names = ("parked_keys", "oldest_parked_seconds")
            return all(sample(f"surefoot_consumer_{name}", labels) == 0 for name in names)

        await eventually(none_left, what="nothing waits")


async def test_lag_is_what_is_not_worked_off_yet(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str, topic_name: str
) -> None:
    consumer = Consumer(f"lagging-{topic_name}")
    let_go = asyncio.Event()

    @consumer.on(ThingHappened)
    async def handle(event: Event[ThingHappened], tx: Transaction) -> None:
        await let_go.wait()

    def lag() -> float:
        found = 0.0
        for partition in range(8):
            labels = {"consumer": consumer.name, "topic": topic, "partition": str(partition)}
            found += sample("surefoot_consumer_lag_records", labels) or 0.0
        return found

    await publish(log, *(ThingHappened(thing_id="a", number=n) for n in range(10)))
    async with consumer_running(consumer, database_url, log, handler_timeout=timedelta(minutes=2)):

        async def all_wait() -> bool:
            return lag() == 10

        async def none_waits() -> bool:
            return lag() == 0

        await eventually(all_wait, what="ten records wait")
        let_go.set()
        await worked_off(connection, 10)
        await eventually(none_waits, what="no record waits")


async def test_the_trace_of_an_event_runs_through_its_handler_to_what_that_publishes(
    database_url: str,
    connection: asyncpg.Connection,
    log: PostgresLog,
    topic: str,
    spans: InMemorySpanExporter,
) -> None:
    consumer = Consumer("warehouse")
    seen: list[tuple[str, str]] = []

    @consumer.on(ThingHappened)
    async def handle(event: Event[ThingHappened], tx: Transaction) -> None:
        current = trace.get_current_span().get_span_context()
        seen.append((f"{current.trace_id:032x}", f"{current.span_id:016x}"))
        await have_effect(event, tx)
        tx.publish(ThingHappened(thing_id="told", number=event.data.number))

    event = new_event(ThingHappened(thing_id="a", number=1))
    traced = type(event)(**{**{name: getattr(event, name) for name in event.__slots__}, "traceparent": PARENT})
    await publish(log, traced)
    async with consumer_running(consumer, database_url, log):
        await settled(connection, PROCESSED=1)

    ((trace_id, span_id),) = seen
    assert trace_id == TRACE
    headers = await connection.fetchval("SELECT headers::text FROM surefoot.outbox_events")
    assert f"00-{TRACE}-{span_id}-01" in headers
    (span,) = [span for span in spans.get_finished_spans() if span.name == "process thing.happened"]
    assert span.parent is not None
    assert f"{span.parent.span_id:016x}" == "00f067aa0ba902b7"
    assert span.attributes is not None
    assert span.attributes["messaging.message.id"] == event.id


async def test_one_events_trace_does_not_reach_the_next_handler(
    database_url: str, connection: asyncpg.Connection, log: PostgresLog, topic: str, spans: InMemorySpanExporter
) -> None:
    consumer = Consumer("warehouse")
    seen: dict[int, int] = {}

    @consumer.on(ThingHappened)
    async def handle(event: Event[ThingHappened], tx: Transaction) -> None:
        seen[event.data.number] = trace.get_current_span().get_span_context().trace_id

    await publish(log, *(ThingHappened(thing_id="a", number=n) for n in range(3)))
    async with consumer_running(consumer, database_url, log):
        await settled(connection, PROCESSED=3)
    assert len(set(seen.values())) == 3
