"""The four paths that are measured: how each is fed, and when its work is done.

`prepare` is not measured; `work` is, from the first feed until every effect is there. The bench itself writes to the
outbox and the log, in one transaction each time, so that the measured process finds the same work in every round.
"""

import asyncio
import json
import uuid
from abc import ABC, abstractmethod
from typing import Any

from bench.idempotency_client import Asked, Line, rate
from bench.quick.ground import PATIENCE_S, Place
from bench.quick.trees import CannotMeasure
from bench.quick.workload import STEPS, Act, Acted, OrderArrived, OrderPlaced, OrderRequested, feed, sagas
from surefoot import outbox
from surefoot.events import Event, Money, encode, encode_data, new_event
from surefoot.log import Acknowledged, Record, TopicPartition

KEYS = 1000


class MeasuredPath(ABC):
    name: str
    unit: str
    units: int
    """In one slice of a round."""
    command: tuple[str, ...]
    """What is measured; `{url}` and `{port}` stand for those of its place."""

    async def set_up(self, place: Place) -> None:
        """Once, before the process starts."""
        return

    @abstractmethod
    async def prepare(self, place: Place) -> None: ...

    @abstractmethod
    async def work(self, place: Place) -> None: ...


class Relay(MeasuredPath):
    name, unit, units = "relay", "outbox row published", 4000
    command = ("surefoot", "relay", "--database", "{url}")
    _columns = "event_id, shard, key_hash, topic, event_type, key, body, headers"

    async def set_up(self, place: Place) -> None:
        async with outbox.transaction(place.connection) as tx:
            for number in range(self.units):
                tx.add(OrderPlaced(order_id=f"order-{number % KEYS}"))
        await place.connection.execute(
            f"CREATE TABLE quick_rows AS SELECT {self._columns} FROM surefoot.outbox_events ORDER BY position"
        )

    async def prepare(self, place: Place) -> None:
        await place.connection.execute("TRUNCATE surefoot.outbox_events")

    async def work(self, place: Place) -> None:
        async with place.connection.transaction():
            await place.connection.execute(
                f"INSERT INTO surefoot.outbox_events ({self._columns}) SELECT {self._columns} FROM quick_rows"
            )
            await place.connection.execute("SELECT pg_notify('surefoot_outbox', '')")
        await place.until("SELECT count(*) FROM surefoot.outbox_events WHERE status = 'PUBLISHED'", self.units)


class Consumer(MeasuredPath):
    name, unit, units = "consumer", "event handled", 1000
    command = ("surefoot", "consume", "workload:consumer", "--database", "{url}")

    def __init__(self) -> None:
        self._records: list[Record] = []

    async def prepare(self, place: Place) -> None:
        await place.connection.execute("TRUNCATE surefoot.outbox_events")
        orders = (OrderArrived(order_id=f"order-{number % KEYS}") for number in range(self.units))
        self._records = [_record(new_event(order)) for order in orders]

    async def work(self, place: Place) -> None:
        await _publish(place, feed.name, self._records)
        await place.until("SELECT count(*) FROM surefoot.outbox_events", self.units)  # the handler publishes one each


class Sagas(MeasuredPath):
    """The bench is the relay and the service: it takes the commands of all sagas, and answers them together."""

    name, unit = "saga step", "step of a saga"
    running = 100
    units = running * len(STEPS)
    command = ("surefoot", "orchestrate", "workload:saga", "--database", "{url}")

    def __init__(self) -> None:
        self._records: list[Record] = []

    async def prepare(self, place: Place) -> None:
        requests = (OrderRequested(order_id=uuid.uuid4().hex) for _ in range(self.running))
        self._records = [_record(new_event(request)) for request in requests]

    async def work(self, place: Place) -> None:
        before = await place.connection.fetchval(self._completed)
        await _publish(place, sagas.name, self._records)
        for _ in STEPS:
            await place.until("SELECT count(*) FROM surefoot.outbox_events", self.running)
            commands = await place.connection.fetch("DELETE FROM surefoot.outbox_events RETURNING event_id, key")
            await _publish(place, sagas.name, [_reply(*command) for command in commands])
        await place.until(self._completed, before + self.running)

    _completed = "SELECT count(*) FROM surefoot.saga_instances WHERE status = 'COMPLETED'"


class Requests(MeasuredPath):
    name, unit, units = "request", "idempotent request", 120
    command = ("request_app", "{url}", "{port}")
    at_once = 4

    def __init__(self) -> None:
        self._lines: dict[int, list[Line]] = {}

    async def set_up(self, place: Place) -> None:
        await place.connection.execute("CREATE TABLE quick_requests (id text PRIMARY KEY, item text, amount bigint)")

    async def prepare(self, place: Place) -> None:
        if place.port not in self._lines:
            self._lines[place.port] = [await _line(place) for _ in range(self.at_once)]

    async def work(self, place: Place) -> None:
        body = json.dumps({"item": "a chair of oak, oiled", "amount": 12_900}).encode()
        asked = [Asked("/purchases", uuid.uuid4().hex, body) for _ in range(self.units)]
        await rate(self._lines[place.port], asked)


def paths() -> tuple[MeasuredPath, ...]:
    return Relay(), Consumer(), Sagas(), Requests()


async def _publish(place: Place, topic: str, records: list[Record]) -> None:
    stored = await place.publisher.publish(TopicPartition(topic, 0), records)
    if not isinstance(stored, Acknowledged):
        raise CannotMeasure(f"The log refused the work of the bench: {stored.sentence}")


def _reply(command_id: uuid.UUID, key: str) -> Record:
    command = new_event(Act(order_id=key, amount=Money.minor(1999, "EUR")), id=str(command_id))
    return _record(new_event(Acted(order_id=key), caused_by=command))


def _record(event: Event[Any]) -> Record:
    data = encode_data(event)
    return Record(event.key.encode(), data, encode(event, data))


async def _line(place: Place) -> Line:
    """A connection to the app, as soon as it serves."""
    assert place.process is not None
    for _ in range(int(PATIENCE_S / 0.1)):
        place.process.check()
        try:
            return await Line.to(place.port)
        except ConnectionRefusedError:
            await asyncio.sleep(0.1)
    raise CannotMeasure(f"The {place.process.name} does not serve after {PATIENCE_S:.0f} s.")
