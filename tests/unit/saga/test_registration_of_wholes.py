"""Parts that do not fit each other are refused: results that may be missing, contexts that cannot be made."""

from datetime import timedelta

import pytest
from pydantic import BaseModel

from surefoot.saga import DefinitionError, Saga
from tests.support.saga.order_sagas import capture, confirm, finished, order_saga, refund, send
from tests.support.saga.refused_definitions import at_once, new, ok, refused
from tests.support.saga.trips import PaperReady, TicketSent, TripRequested, send_ticket
from tests.support.shop_types import (
    Collected,
    OrderConfirmed,
    OrderFinished,
    OrderRefused,
    OrderWanted,
    ParcelSent,
    PaymentCaptured,
    PaymentRefunded,
    RefundPayment,
    StockReserved,
)


def by(order: OrderWanted) -> str:
    return "left"


def test_an_undo_that_needs_a_result_its_own_step_may_not_have() -> None:
    def sure(order: OrderWanted, captured: PaymentCaptured) -> RefundPayment:
        return refund(order, captured)

    refused(
        "order: the undo of pay needs PaymentCaptured, which pay may not have given by then: ask for "
        "PaymentCaptured | None, and say what to do without.",
        lambda saga: saga.step("pay", do=capture, done_on=PaymentCaptured, undo=sure, undone_on=PaymentRefunded),
    )


def test_a_do_that_needs_a_result_of_a_later_step() -> None:
    def write(saga: Saga) -> None:
        saga.step("confirm", do=confirm, done_on=OrderConfirmed)
        saga.step("pay", do=capture, done_on=PaymentCaptured)

    refused(
        "order: the do of confirm needs PaymentCaptured, which pay may not have given by then: ask for "
        "PaymentCaptured | None, and say what to do without.",
        write,
    )


def test_a_do_that_needs_a_result_of_a_path_that_may_not_be_taken() -> None:
    def write(saga: Saga) -> None:
        way = saga.branch("way", by=by)
        way.path("left").step("pay", do=capture, done_on=PaymentCaptured)
        way.path("right")
        saga.step("confirm", do=confirm, done_on=OrderConfirmed)

    refused(
        "order: the do of confirm needs PaymentCaptured, which pay may not have given by then: ask for "
        "PaymentCaptured | None, and say what to do without.",
        write,
    )


def test_a_result_that_no_step_gives() -> None:
    refused(
        "order: the do of confirm asks for PaymentCaptured, and no step is done on it.",
        lambda saga: saga.step("confirm", do=confirm, done_on=OrderConfirmed),
    )


def test_what_is_told_of_an_end_cannot_rely_on_any_result() -> None:
    def told(order: OrderWanted, reserved: StockReserved) -> OrderFinished:
        return finished(order)

    def write(saga: Saga) -> None:
        ok(saga)
        saga.tell("COMPENSATED", told)

    refused(
        "order: what it tells of COMPENSATED needs StockReserved, which reserve may not have given by then: ask for "
        "StockReserved | None, and say what to do without.",
        write,
    )


def test_a_status_that_nobody_is_told_of_and_one_that_is_told_twice() -> None:
    def twice(saga: Saga) -> None:
        saga.tell("STUCK", finished)
        saga.tell("STUCK", finished)

    at_once("order tells of STUCK twice.", twice)
    at_once(
        "order: nobody is told of RUNNING; of COMPLETED, COMPENSATED, FAILED or STUCK.",
        lambda saga: saga.tell("RUNNING", finished),
    )


def test_a_function_that_takes_another_context() -> None:
    def strange(order: StockReserved) -> RefundPayment:
        raise NotImplementedError

    refused(
        "order: the do of pay takes StockReserved as its first argument, and gets the saga's context, which is "
        "OrderWanted.",
        lambda saga: saga.step("pay", do=strange, done_on=PaymentCaptured),
    )


def test_a_definition_that_is_in_use_is_not_added_to() -> None:
    saga = order_saga()
    _ = saga.definition
    with pytest.raises(DefinitionError, match=r"order: late is added after the definition was taken into use."):
        saga.step("late", do=send, done_on=ParcelSent)
    with pytest.raises(DefinitionError, match=r"order: what it tells of FAILED is added after the definition was"):
        saga.tell("FAILED", finished)


class Wider(BaseModel):
    order_id: str
    colour: str
    note: str = ""


def test_a_context_that_the_start_event_cannot_fill() -> None:
    saga = Saga("order", version=1, starts_on=OrderWanted, context=Wider)
    saga.step("ship", do=lambda order: ParcelSent(order_id=order.order_id), done_on=ParcelSent)
    with pytest.raises(DefinitionError) as caught:
        _ = saga.definition
    assert str(caught.value) == (
        "order: the context Wider needs colour, and OrderWanted has no such member: give the saga a begin that makes "
        "the context."
    )


def test_a_context_is_made_by_begin_or_of_members_of_the_same_names() -> None:
    class Narrower(BaseModel):
        order_id: str

    made = Saga("order", version=1, starts_on=OrderWanted, context=Narrower)
    made.step("ship", do=lambda order: ParcelSent(order_id=order.order_id), done_on=ParcelSent)
    assert made.definition.begin(OrderWanted(order_id="o-1", total=3)) == Narrower(order_id="o-1")

    told = Saga(
        "order", version=1, starts_on=OrderWanted, context=Wider, begin=lambda data: Wider(order_id="x", colour="red")
    )
    told.step("ship", do=lambda order: ParcelSent(order_id=order.order_id), done_on=ParcelSent)
    assert told.definition.begin(OrderWanted(order_id="o-1")) == Wider(order_id="x", colour="red")


def test_an_entity_that_the_event_does_not_have() -> None:
    saga = Saga("order", version=1, starts_on=OrderWanted, entity="basket_id")
    ok(saga)
    with pytest.raises(DefinitionError) as caught:
        _ = saga.definition
    assert str(caught.value) == "order: the entity is said to be basket_id, and OrderWanted has no such member."
    at_once(
        "order: collected: the entity is said to be basket_id, and Collected has no such member.",
        lambda one: one.wait("collected", until=Collected, deadline=timedelta(1), entity="basket_id"),
    )


def test_the_fingerprint_sees_the_shape_and_not_the_times() -> None:
    first, other, slower = new(), new(), new()
    first.step("ship", do=send, done_on=ParcelSent)
    other.step("ship", do=send, done_on=ParcelSent, refused_on=OrderRefused)
    slower.step("ship", do=send, done_on=ParcelSent, timeout=timedelta(hours=1))
    assert first.definition.fingerprint == slower.definition.fingerprint != other.definition.fingerprint


def test_two_waits_for_one_type_are_refused() -> None:
    saga = Saga("twice", version=1, starts_on=TripRequested)
    saga.wait("first", until=PaperReady, deadline=timedelta(days=1))
    saga.step("print", do=send_ticket, done_on=TicketSent, nothing_to_undo=True)
    saga.wait("second", until=PaperReady, deadline=timedelta(days=1))
    with pytest.raises(DefinitionError, match="first and second both wait for PaperReady"):
        _ = saga.definition


def test_two_waits_for_one_type_on_different_paths_are_not() -> None:
    saga = Saga("either", version=1, starts_on=TripRequested)
    branch = saga.branch("way", by=lambda trip: "a")
    for label in ("a", "b"):
        branch.path(label).wait(f"paper_{label}", until=PaperReady, deadline=timedelta(days=1))
    saga.step("print", do=send_ticket, done_on=TicketSent, nothing_to_undo=True)
    assert len(list(saga.definition.waits)) == 2


def test_a_wait_for_the_event_that_starts_the_saga_is_refused() -> None:
    saga = Saga("again", version=1, starts_on=TripRequested)
    saga.wait("itself", until=TripRequested, deadline=timedelta(days=1))
    saga.step("print", do=send_ticket, done_on=TicketSent, nothing_to_undo=True)
    with pytest.raises(DefinitionError, match="itself waits for TripRequested, which starts the saga"):
        _ = saga.definition
