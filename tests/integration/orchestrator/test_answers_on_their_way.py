"""Where an answer can lie while a clock runs out, and who may keep clocks from running out: nobody for ever."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta

from prometheus_client import REGISTRY

from surefoot.events import EventData
from surefoot.saga import Saga
from tests.consuming import publish
from tests.orchestrating import Stage, on_stage
from tests.trips import (
    Agency,
    Booked,
    SendTicket,
    TicketSent,
    TripRequested,
    Unbooked,
    agency_consumer,
    book,
    send_ticket,
    trip_events,
    trip_saga,
    trips,
    unbook,
)
from tests.waiting import eventually


@trips.event("paper.ordered", topic=trip_events, key="shop_id")
class PaperOrdered(EventData):
    shop_id: str


@trips.event("paper.delivered", topic=trip_events, key="shop_id")
class PaperDelivered(EventData):
    """In order with all that its shop does; which trip it is for is in the data alone."""

    shop_id: str
    trip_id: str


def printing(deadline: timedelta = timedelta(seconds=1)) -> Saga:
    saga = Saga("printing", version=1, starts_on=TripRequested)
    saga.step("book", do=book, done_on=Booked, undo=unbook, undone_on=Unbooked)
    saga.wait("paper", until=PaperDelivered, entity="trip_id", deadline=deadline, when_late="undo")
    saga.step("print", do=send_ticket, done_on=TicketSent, nothing_to_undo=True)
    return saga


@dataclass
class Shop:
    """A saga of the shop's own, whose definition fails until it is mended."""

    mended: bool = False

    def send_paper(self, ordered: PaperOrdered) -> SendTicket:
        if not self.mended:
            raise ValueError("the shop has no form for that")
        return SendTicket(trip_id=ordered.shop_id)

    def saga(self) -> Saga:
        saga = Saga("shop", version=1, starts_on=PaperOrdered)
        saga.step("send_paper", do=self.send_paper, done_on=TicketSent, nothing_to_undo=True)
        return saga


def postponed(why: str) -> float:
    return REGISTRY.get_sample_value("surefoot_saga_timers_postponed_total", {"why": why}) or 0.0


def is_postponed(stage: Stage, entity: str, why: str) -> Callable[[], Awaitable[bool]]:
    """Whether a timer did not count several times for this reason, from now on; and the saga runs meanwhile."""
    before = postponed(why)

    async def is_so() -> bool:
        assert (await stage.statuses())[entity] == "RUNNING", await stage.history(entity)
        return postponed(why) >= before + 3

    return is_so


async def test_a_wait_is_not_late_while_its_event_is_parked_under_another_key(stage: Stage, agency: Agency) -> None:
    shop = Shop()
    async with on_stage(stage, [printing(), shop.saga()], [agency_consumer(agency)]):
        await stage.publish(TripRequested(trip_id="t-1"))
        await stage.waits_for("t-1", "paper")
        await stage.publish(PaperOrdered(shop_id="s-1"), PaperDelivered(shop_id="s-1", trip_id="t-1"))
        await eventually(is_postponed(stage, "t-1", "parked"), what="the deadline has passed, and does not count")
        shop.mended = True
        await stage.becomes("t-1", "COMPLETED")


async def test_timeouts_count_where_replies_were_removed_before_an_orchestrator_first_read_them(
    stage: Stage, agency: Agency
) -> None:
    await publish(stage.log, *(Booked(trip_id=f"old-{n}", seat="1") for n in range(40)))
    await stage.connection.execute("UPDATE surefoot.log_topics SET retention = interval '0'")
    await stage.log.expire()
    await stage.connection.execute("UPDATE surefoot.log_topics SET retention = interval '1 day'")
    agency.will("t-1", "book", "silent")
    saga = trip_saga(timeout=timedelta(milliseconds=300), attempts=1)
    async with on_stage(stage, [saga], [agency_consumer(agency)]):
        await stage.publish(TripRequested(trip_id="t-1"))
        await stage.becomes("t-1", "COMPENSATED")
