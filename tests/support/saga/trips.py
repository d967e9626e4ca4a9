"""A saga for tests, and the service it commands: a seat is booked, money taken, the trip confirmed, a ticket sent.

What the service does with each command is written down by the test: it does it, refuses, says nothing, or dies. Effects
are rows, so that a test can see what was really done and undone.
"""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Literal

from sqlalchemy import text

from surefoot.consumer import Consumer, Permanent, Retry, Transaction
from surefoot.events import Catalogue, Event, EventData
from surefoot.saga import Saga

trips = Catalogue(source="/tests/trips")
trip_events = trips.topic("trip.events", partitions=8)
trip_commands = trips.topic("trip.commands", partitions=8)

EFFECTS = "CREATE TABLE trip_effects (n bigint GENERATED ALWAYS AS IDENTITY, trip_id text, step text, direction text)"
Deed = Literal["do", "refuse", "silent", "die", "die after"]


@trips.event("trip.requested", topic=trip_events, key="trip_id")
class TripRequested(EventData):
    trip_id: str
    price: int = 1
    wants_ticket: bool = True


class OfTrip(EventData):
    trip_id: str


@trips.event("trip.book", topic=trip_commands, key="trip_id")
class Book(OfTrip):
    pass


@trips.event("trip.unbook", topic=trip_commands, key="trip_id")
class Unbook(OfTrip):
    pass


@trips.event("trip.charge", topic=trip_commands, key="trip_id")
class Charge(OfTrip):
    seat: str


@trips.event("trip.refund", topic=trip_commands, key="trip_id")
class Refund(OfTrip):
    charged: bool


@trips.event("trip.confirm", topic=trip_commands, key="trip_id")
class Confirm(OfTrip):
    pass


@trips.event("trip.send_ticket", topic=trip_commands, key="trip_id")
class SendTicket(OfTrip):
    pass


@trips.event("trip.booked", topic=trip_events, key="trip_id")
class Booked(OfTrip):
    seat: str


@trips.event("trip.full", topic=trip_events, key="trip_id")
class Full(OfTrip):
    reason: str = "no seat left"


@trips.event("trip.unbooked", topic=trip_events, key="trip_id")
class Unbooked(OfTrip):
    pass


@trips.event("trip.charged", topic=trip_events, key="trip_id")
class Charged(OfTrip):
    pass


@trips.event("trip.declined", topic=trip_events, key="trip_id")
class Declined(OfTrip):
    reason: str = "declined"


@trips.event("trip.refunded", topic=trip_events, key="trip_id")
class Refunded(OfTrip):
    pass


@trips.event("trip.confirmed", topic=trip_events, key="trip_id")
class Confirmed(OfTrip):
    pass


@trips.event("trip.ticket_sent", topic=trip_events, key="trip_id")
class TicketSent(OfTrip):
    pass


@trips.event("trip.over", topic=trip_events, key="trip_id")
class TripOver(OfTrip):
    """Told when a trip has come to nothing."""


@trips.event("trip.paper_ready", topic=trip_events, key="trip_id")
class PaperReady(OfTrip):
    """From outside: somebody has put paper into the printer."""


def book(trip: TripRequested) -> Book:
    return Book(trip_id=trip.trip_id)


def unbook(trip: TripRequested) -> Unbook:
    return Unbook(trip_id=trip.trip_id)


def charge(trip: TripRequested, booked: Booked) -> Charge:
    return Charge(trip_id=trip.trip_id, seat=booked.seat)


def refund(trip: TripRequested, charged: Charged | None) -> Refund:
    return Refund(trip_id=trip.trip_id, charged=charged is not None)


def confirm(trip: TripRequested) -> Confirm:
    return Confirm(trip_id=trip.trip_id)


def send_ticket(trip: TripRequested) -> SendTicket:
    return SendTicket(trip_id=trip.trip_id)


def over(trip: TripRequested) -> TripOver:
    return TripOver(trip_id=trip.trip_id)


def trip_saga(
    version: int = 1,
    *,
    name: str = "trip",
    timeout: timedelta = timedelta(seconds=30),
    attempts: int = 2,
    rest: timedelta = timedelta(milliseconds=100),
) -> Saga:
    saga = Saga(name, version=version, starts_on=TripRequested)
    retry = Retry(attempts=attempts, first=rest, longest=rest)
    often: dict[str, Any] = {"timeout": timeout, "retry": retry, "undo_retry": retry}
    saga.step("book", do=book, done_on=Booked, refused_on=Full, undo=unbook, undone_on=Unbooked, **often)
    saga.step("charge", do=charge, done_on=Charged, refused_on=Declined, undo=refund, undone_on=Refunded, **often)
    saga.pivot("confirm", do=confirm, done_on=Confirmed, timeout=timeout, retry=retry)
    saga.step("send_ticket", do=send_ticket, done_on=TicketSent, timeout=timeout, retry=retry)
    saga.tell("FAILED", over)
    saga.tell("COMPENSATED", over)
    return saga


@dataclass
class Agency:
    """The service. `deeds` says what it does with the commands of a trip and step; by default, what it is told."""

    deeds: dict[tuple[str, str, str], Deed] = field(default_factory=dict)

    def will(self, trip_id: str, step: str, deed: Deed, direction: str = "do") -> None:
        self.deeds[trip_id, step, direction] = deed

    async def act(
        self, event: Event[Any], tx: Transaction, done: EventData, refused: EventData | None = None
    ) -> EventData | None:
        assert tx.command is not None
        step, direction = tx.command.step, tx.command.direction
        deed = self.deeds.get((event.data.trip_id, step, direction), "do")
        if deed == "refuse":
            return refused
        if deed == "die":
            raise Permanent("the agency is on fire")
        await tx.session.execute(
            text("INSERT INTO trip_effects (trip_id, step, direction) VALUES (:trip, :step, :direction)"),
            {"trip": event.data.trip_id, "step": step, "direction": direction},
        )
        return None if deed == "silent" else done


def agency_consumer(agency: Agency, name: str = "trip") -> Consumer:
    consumer = Consumer(name, retry=Retry(attempts=2, first=timedelta(milliseconds=50)))

    @consumer.command(Book)
    async def on_book(event: Event[Book], tx: Transaction) -> EventData | None:
        trip_id = event.data.trip_id
        return await agency.act(event, tx, Booked(trip_id=trip_id, seat="12A"), Full(trip_id=trip_id))

    @consumer.command(Unbook)
    async def on_unbook(event: Event[Unbook], tx: Transaction) -> EventData | None:
        return await agency.act(event, tx, Unbooked(trip_id=event.data.trip_id))

    @consumer.command(Charge)
    async def on_charge(event: Event[Charge], tx: Transaction) -> EventData | None:
        trip_id = event.data.trip_id
        return await agency.act(event, tx, Charged(trip_id=trip_id), Declined(trip_id=trip_id))

    @consumer.command(Refund)
    async def on_refund(event: Event[Refund], tx: Transaction) -> EventData | None:
        return await agency.act(event, tx, Refunded(trip_id=event.data.trip_id))

    @consumer.command(Confirm)
    async def on_confirm(event: Event[Confirm], tx: Transaction) -> EventData | None:
        return await agency.act(event, tx, Confirmed(trip_id=event.data.trip_id))

    @consumer.command(SendTicket)
    async def on_ticket(event: Event[SendTicket], tx: Transaction) -> EventData | None:
        return await agency.act(event, tx, TicketSent(trip_id=event.data.trip_id))

    return consumer
