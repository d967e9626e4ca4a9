"""The test kit comes to the same as the consumer on Postgres: outcomes, attempts, calls, what was published.

Each scenario is one consumer, what its functions raise, and the records of one partition.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from surefoot.consumer import Consumer, DependencyDown, OutsideCall, Permanent, Retry, Transaction, Transient
from surefoot.consumer.consumer import WhenDead
from surefoot.consumer.contracts import CONTROL_TYPE
from surefoot.events import Catalogue, Event, EventData, encode_data, new_event
from surefoot.events.event import Command, Direction
from surefoot.log.postgres.log import PostgresLog
from surefoot.testing.consumer_kit import ConsumerKit
from tests.support.consumer.failures import keys_together
from tests.support.consumer.processes import consumer_running, create_topics, publish
from tests.support.shop_types import (
    CapturePayment,
    Collected,
    OrderCancelled,
    OrderPaid,
    OrderPaidV2,
    ParcelWeighed,
    PaymentCaptured,
    PaymentRefunded,
    RefundPayment,
    ReleaseStock,
    ReserveStock,
    StockReleased,
    StockReserved,
    orders,
)
from tests.support.waiting import eventually

TOPICS = ("shop.orders", "shop.parcels", "shop.commands", "shop.replies", "saga.replies", "dlq.outcomes")
UNLUCKY = 13
controls = Catalogue(source="/tests")


@controls.event(CONTROL_TYPE, topic=controls.topic(orders.name), key="order_id")
class SomebodyElsesControl(EventData):
    """It names no consumer, so each of them passes it by."""

    order_id: str


@dataclass(frozen=True)
class Scenario:
    name: str
    deliver: Sequence[EventData | Event[Any]]
    failures: Mapping[str, Sequence[Exception | None]] = field(default_factory=dict)
    """What the calls of a function raise, in order; afterwards they succeed."""
    when_dead: WhenDead = "hold"
    batch_records: int = 1
    """An event's handler runs alone in the kit; so it does here, unless it is for a batch."""


class Shop:
    """A consumer with handlers of every kind, and a note of each call."""

    def __init__(self, scenario: Scenario) -> None:
        self.calls: list[str] = []
        self._failures = {name: list(errors) for name, errors in scenario.failures.items()}
        soon = Retry(attempts=3, first=timedelta(milliseconds=10), longest=timedelta(milliseconds=20))
        self.consumer = Consumer("warehouse", retry=soon, when_dead=scenario.when_dead)
        self.consumer.on(OrderPaid)(self.paid)
        self.consumer.on(OrderCancelled, outside=self.ask, prepare=self.choose)(self.cancelled)
        self.consumer.on_batch(ParcelWeighed)(self.weighed)
        self.consumer.command(ReserveStock)(self.reserve)
        self.consumer.command(ReleaseStock)(self.release)
        self.consumer.command(CapturePayment, outside=self.ask)(self.captured)
        self.consumer.command(RefundPayment, outside=self.ask)(self.refunded)

    def _note(self, function: str, about: object) -> None:
        self.calls.append(f"{function}({about})")
        errors = self._failures.get(function)
        error = errors.pop(0) if errors else None
        if error is not None:
            raise error

    async def paid(self, event: Event[OrderPaid], tx: Transaction) -> None:
        tx.publish(StockReserved(order_id=event.key, shelf=str(event.data.number)))
        self._note("paid", event.data.number)

    async def choose(self, event: Event[OrderCancelled], tx: Transaction) -> dict[str, str]:
        tx.publish(StockReleased(order_id=event.key))
        self._note("choose", event.key)
        return {"account": event.key}

    async def ask(self, event: Event[EventData], call: OutsideCall) -> str:
        self._note("ask", f"{call.key}, {call.do_key}, {call.attempt}, {call.prepared}")
        return "p-7"

    async def cancelled(self, event: Event[OrderCancelled], tx: Transaction, answer: str) -> None:
        tx.publish(PaymentRefunded(order_id=event.key))
        self._note("cancelled", answer)

    async def weighed(self, events: Sequence[Event[ParcelWeighed]], tx: Transaction) -> None:
        for event in events:
            tx.publish(StockReserved(order_id=event.key), caused_by=event)
        self._note("weighed", [event.data.grams for event in events])
        if any(event.data.grams == UNLUCKY for event in events):
            raise Permanent("an unlucky number")

    async def reserve(self, event: Event[ReserveStock], tx: Transaction) -> StockReserved:
        self._note("reserve", tx.command)
        return StockReserved(order_id=event.key, shelf=str(len(self.calls)))

    async def release(self, event: Event[ReleaseStock], tx: Transaction) -> StockReleased:
        self._note("release", tx.command)
        return StockReleased(order_id=event.key, was_done=tx.done)

    async def captured(self, event: Event[CapturePayment], tx: Transaction, payment: str) -> PaymentCaptured:
        self._note("captured", payment)
        return PaymentCaptured(order_id=event.key, payment_id=payment)

    async def refunded(self, event: Event[RefundPayment], tx: Transaction, payment: str) -> PaymentRefunded:
        self._note("refunded", f"{payment}, {tx.done}")
        return PaymentRefunded(order_id=event.key, was_done=tx.done)


def paid(number: int, key: str = "o-1") -> OrderPaid:
    return OrderPaid(order_id=key, number=number)


def command(data: EventData, direction: Direction = "do", attempt: int = 1) -> Event[Any]:
    return new_event(data, extensions=Command("s-1", "a step", direction, attempt).extensions())


RESERVE, RELEASE = ReserveStock(order_id="o-1"), ReleaseStock(order_id="o-1")
CAPTURE, REFUND = CapturePayment(order_id="o-1"), RefundPayment(order_id="o-1")
CANCELLED = OrderCancelled(order_id="o-1")
TWICE = new_event(paid(1))
WEIGHED = [ParcelWeighed(order_id=key, grams=n) for key, n in zip(keys_together(5), (1, 2, UNLUCKY, 4, 5), strict=True)]
SCENARIOS = [
    Scenario("success", [paid(1), paid(2)]),
    Scenario("a duplicate", [TWICE, paid(2), TWICE]),
    Scenario("transient, then success", [paid(1), paid(2)], {"paid": [Transient("not now")]}),
    Scenario("out of attempts", [paid(1), paid(2)], {"paid": [ValueError("no")] * 3}),
    Scenario("out of attempts, released", [paid(1), paid(2)], {"paid": [ValueError("no")] * 3}, "release"),
    Scenario("permanent", [paid(1), paid(2)], {"paid": [Permanent("never")]}),
    Scenario("a dependency away", [paid(1), paid(2)], {"paid": [None, DependencyDown("no shelves")]}),
    Scenario("a batch with one bad event", WEIGHED, batch_records=100),
    Scenario("a failed batch behind a held key", [*WEIGHED, *WEIGHED[::2]], batch_records=100),
    Scenario("a command repeated", [command(RESERVE), command(RESERVE, attempt=2)]),
    Scenario("an undo after its do", [command(RESERVE), command(RELEASE, "undo")]),
    Scenario("an undo before its do", [command(RELEASE, "undo"), command(RESERVE)]),
    Scenario("an undo fails once", [command(RELEASE, "undo"), command(RESERVE)], {"release": [Transient("no")]}),
    Scenario("a dead command", [command(RESERVE), command(RELEASE, "undo")], {"reserve": [Permanent("broken")]}),
    Scenario("half a command", [new_event(RESERVE, extensions={"sagaid": "s-1"}), command(RESERVE)]),
    Scenario("a command of no saga", [RESERVE, RESERVE]),
    Scenario("an outside call", [CANCELLED, paid(2)]),
    Scenario("an outside call fails", [CANCELLED], {"choose": [Transient("no")], "ask": [TimeoutError("no answer")]}),
    Scenario("its finish fails once", [CANCELLED, paid(2)], {"cancelled": [ValueError("a full disk")]}),
    Scenario("its finish is refused", [CANCELLED, paid(2)], {"cancelled": [Permanent("refused")]}),
    Scenario("a command is refused", [command(CAPTURE), command(REFUND, "undo")], {"captured": [Permanent("no")]}),
    Scenario("a call repeated, then undone", [command(CAPTURE), command(CAPTURE, attempt=2), command(REFUND, "undo")]),
    Scenario("an undo by a call", [command(REFUND, "undo"), command(CAPTURE)], {"ask": [Transient("no")]}),
    Scenario("an unknown version", [OrderPaidV2(order_id="o-1", total=1), paid(2)]),
    Scenario("an unknown version, released", [OrderPaidV2(order_id="o-1", total=1), paid(2)], when_dead="release"),
    Scenario("no handler", [Collected(order_id="o-1"), Collected(order_id="o-1")]),
    Scenario("a control record of another consumer", [paid(1), SomebodyElsesControl(order_id="o-1"), paid(2)]),
]  # fmt: skip


@dataclass(frozen=True)
class Found:
    outcomes: list[str]
    dead: list[tuple[str, str, int]]
    """Id, reason, attempts."""
    ignored: int
    calls: list[str]
    published: list[tuple[Any, ...]]
    """Type, key, cause, flow, data."""


async def in_the_kit(scenario: Scenario, events: Sequence[Event[EventData]]) -> Found:
    story = Shop(scenario)
    kit = ConsumerKit(story.consumer)
    await kit.deliver(*events)
    await kit.settle()
    return Found(
        [kit.outcome_of(event) for event in events],
        [(dead.event.id, dead.reason, kit.attempts_of(dead.event)) for dead in kit.dead],
        kit.ignored,
        story.calls,
        [
            (event.type, event.key, event.causation_id, event.correlation_id, json.loads(encode_data(event)))
            for event in kit.published_events
        ],
    )


async def on_postgres(
    scenario: Scenario, events: Sequence[Event[EventData]], url: str, connection: asyncpg.Connection, log: PostgresLog
) -> Found:
    story = Shop(scenario)
    await publish(log, *events)

    async def is_at_rest() -> bool:
        taken = await connection.fetchval("SELECT sum(next_offset) FROM surefoot.consumer_partitions")
        tried = await connection.fetchval(
            "SELECT count(*) FROM surefoot.parked_events WHERE state IN ('DUE', 'CALLING')"
        )
        return bool(taken == len(events) and tried == 0)

    async with consumer_running(story.consumer, url, log, batch_records=scenario.batch_records):
        await eventually(is_at_rest, what="everything is tried")
    inbox = dict(await connection.fetch("SELECT event_id, outcome::text FROM surefoot.processed_events"))
    dead = await connection.fetch(
        "SELECT event_id, reason, attempts FROM surefoot.parked_events WHERE state = 'DEAD' ORDER BY log_offset"
    )
    rows = await connection.fetch(
        "SELECT topic, event_type, key, payload::text, headers::text FROM surefoot.outbox "
        "WHERE topic NOT LIKE '%.dlq' ORDER BY position"
    )
    told = []
    for row in rows:
        headers = dict(json.loads(row["headers"]))
        flow = (headers["ce_causationid"], headers["ce_correlationid"])
        told.append((row["event_type"], row["key"], *flow, json.loads(row["payload"])))
    return Found(
        [inbox.get(event.id, "IGNORED") for event in events],
        [tuple(row) for row in dead],
        await connection.fetchval("SELECT sum(ignored)::int FROM surefoot.consumer_partitions"),
        story.calls,
        told,
    )


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
async def test_the_kit_comes_to_the_same_as_the_consumer(
    scenario: Scenario, database_url: str, connection: asyncpg.Connection, log: PostgresLog
) -> None:
    await create_topics(log, *TOPICS)
    events = [one if isinstance(one, Event) else new_event(one) for one in scenario.deliver]
    expected = await on_postgres(scenario, events, database_url, connection, log)
    assert await in_the_kit(scenario, events) == expected
