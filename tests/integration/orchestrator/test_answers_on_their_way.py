"""Where an answer can lie while a clock runs out, and who may keep clocks from running out: nobody for ever."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from prometheus_client import REGISTRY

from surefoot.consumer import Consumer, Retry, Transaction
from surefoot.events import Event, EventData
from surefoot.saga import Saga
from tests.support.consumer.processes import publish
from tests.support.saga.orchestrators import Stage, on_stage, orchestrator_running
from tests.support.saga.trips import (
    Agency,
    Booked,
    SendTicket,
    TicketSent,
    TripRequested,
    Unbook,
    Unbooked,
    agency_consumer,
    book,
    send_ticket,
    trip_events,
    trip_saga,
    trips,
    unbook,
)
from tests.support.waiting import eventually

QUICKLY: dict[str, Any] = {"timeout": timedelta(milliseconds=300), "retry": Retry(attempts=1)}


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


async def refused_by_the_log(stage: Stage, shop_id: str) -> None:
    """The shop's key waits for somebody: what is written behind this is held."""
    await stage.publish(PaperOrdered(shop_id=shop_id))
    await stage.connection.execute(
        "UPDATE surefoot.outbox_events SET status = 'FAILED', attempts = 5, last_error = 'Too large.'"
    )


async def released(stage: Stage) -> None:
    await stage.connection.execute(
        "UPDATE surefoot.outbox_events SET status = 'PENDING', attempts = 0 WHERE status IN ('FAILED', 'HELD')"
    )


async def test_a_step_does_not_time_out_while_its_answer_is_held_in_the_outbox_and_others_do(stage: Stage) -> None:
    saga = Saga("posting", version=1, starts_on=TripRequested)
    saga.step("post", do=send_ticket, done_on=PaperDelivered, undo=unbook, undone_on=Unbooked, **QUICKLY)
    service = Consumer("trip")

    @service.command(SendTicket)
    async def post(event: Event[SendTicket], tx: Transaction) -> EventData | None:
        trip_id = event.data.trip_id
        return PaperDelivered(shop_id="s-1", trip_id=trip_id) if trip_id == "t-1" else None

    @service.command(Unbook)
    async def take_back(event: Event[Unbook], tx: Transaction) -> EventData:
        return Unbooked(trip_id=event.data.trip_id)

    await refused_by_the_log(stage, "s-1")
    async with on_stage(stage, [saga], [service]):
        await stage.publish(TripRequested(trip_id="t-1"), TripRequested(trip_id="t-2"))
        await stage.waits_for("t-1", "post")
        await eventually(is_postponed(stage, "t-1", "parked"), what="the time is up, and does not count")
        await stage.becomes("t-2", "COMPENSATED")
        assert (await stage.statuses())["t-1"] == "RUNNING"
        await released(stage)
        await stage.becomes("t-1", "COMPLETED")


async def test_a_wait_is_not_late_while_its_event_is_held_in_the_outbox(stage: Stage, agency: Agency) -> None:
    await refused_by_the_log(stage, "s-1")
    async with on_stage(stage, [printing()], [agency_consumer(agency)]):
        await stage.publish(TripRequested(trip_id="t-1"))
        await stage.waits_for("t-1", "paper")
        await stage.publish(PaperDelivered(shop_id="s-1", trip_id="t-1"))
        await eventually(is_postponed(stage, "t-1", "parked"), what="the deadline has passed, and does not count")
        await released(stage)
        await stage.becomes("t-1", "COMPLETED")


async def test_timeouts_count_beside_an_orchestrator_that_is_started_again_and_again(
    stage: Stage, agency: Agency
) -> None:
    agency.will("t-1", "book", "silent")
    saga = trip_saga(timeout=timedelta(milliseconds=1500), attempts=1)

    async def two_keep_timers() -> bool:
        asked = """SELECT count(*) FROM pg_stat_activity
                   WHERE application_name = 'surefoot saga timers' AND datname = current_database()"""
        return bool(await stage.connection.fetchval(asked) == 2)

    async def is_timed_out_while_another_one_starts() -> bool:
        async with orchestrator_running([saga], stage.url, stage.log):  # far more often than its grace of two seconds
            await eventually(two_keep_timers, what="the second one has come")
        return "TIMED_OUT book do 1" in await stage.history("t-1")

    async with on_stage(stage, [saga], [agency_consumer(agency)]):
        await stage.publish(TripRequested(trip_id="t-1"))
        await stage.waits_for("t-1", "book")
        await eventually(is_timed_out_while_another_one_starts, what="the silence counts")
