"""Functions of a saga are given results by the types they name."""

from typing import Any

import pytest

from surefoot.events import EventData
from surefoot.saga import DefinitionError, Saga
from surefoot.saga.definition import call, needs_of, parse_result, stored_result
from tests.support.saga.order_sagas import capture, refund, reserve, send
from tests.support.shop_types import (
    CapturePayment,
    OrderConfirmed,
    OrderWanted,
    ParcelSent,
    PaymentCaptured,
    PaymentPostponed,
    PaymentRefunded,
    StockReserved,
)

ORDER = OrderWanted(order_id="o-1", total=7)
CAPTURED = PaymentCaptured(order_id="o-1", payment_id="p-9")


def saga_with(*steps: tuple[str, Any]) -> Saga:
    saga = Saga("order", version=1, starts_on=OrderWanted)
    for name, done_on in steps:
        saga.step(name, do=send, done_on=done_on)
    return saga


def given(saga: Saga, function: Any, **results: EventData | None) -> Any:
    return call(function, ORDER, tuple(saga.definition.parts.values()), results)


def test_a_function_may_ask_for_the_context_alone() -> None:
    made = given(saga_with(("ship", ParcelSent)), capture)
    assert made == CapturePayment(order_id="o-1", total=7)


def test_a_result_is_given_by_its_type_whatever_the_parameter_is_called() -> None:
    def look(order: OrderWanted, money: PaymentCaptured) -> str:
        return money.payment_id

    assert given(saga_with(("pay", PaymentCaptured)), look, pay=CAPTURED) == "p-9"


def test_an_optional_result_that_is_missing_is_none() -> None:
    saga = saga_with(("pay", PaymentCaptured))
    assert given(saga, refund).payment_id is None
    assert given(saga, refund, pay=CAPTURED).payment_id == "p-9"


def test_a_result_that_must_be_there_and_is_not_is_an_error() -> None:
    def look(order: OrderWanted, money: PaymentCaptured) -> str:
        return money.payment_id

    with pytest.raises(DefinitionError, match=r"look asks for money, and there is no such result."):
        given(saga_with(("pay", PaymentCaptured)), look)


def test_of_several_steps_with_one_type_the_parameters_name_says_which() -> None:
    def look(order: OrderWanted, second: PaymentCaptured) -> str:
        return second.payment_id

    saga = saga_with(("first", PaymentCaptured), ("second", PaymentCaptured))
    assert given(saga, look, first=PaymentCaptured(order_id="o-1"), second=CAPTURED) == "p-9"


def test_several_steps_with_one_type_and_no_name_that_tells_them_apart_are_refused() -> None:
    saga = saga_with(("first", PaymentCaptured), ("second", PaymentCaptured))
    saga.step("third", do=refund, done_on=PaymentRefunded)
    with pytest.raises(DefinitionError) as caught:
        _ = saga.definition
    assert str(caught.value) == (
        "order: the do of third is not clear. The parameter captured could be the result of several steps (first, "
        "second): give the parameter the name of the one that is meant."
    )


def test_a_step_with_several_results_gives_the_one_it_had_to_whoever_asks_for_all() -> None:
    def look(order: OrderWanted, how: PaymentCaptured | PaymentPostponed) -> PaymentCaptured | PaymentPostponed:
        return how

    saga = saga_with(("pay", (PaymentCaptured, PaymentPostponed)))
    saga.step("ship", do=look, done_on=ParcelSent)
    assert given(saga, look, pay=CAPTURED) == CAPTURED
    assert given(saga, look, pay=PaymentPostponed(order_id="o-1")) == PaymentPostponed(order_id="o-1")


def test_who_asks_for_one_of_several_results_must_do_without() -> None:
    def sure(order: OrderWanted, captured: PaymentCaptured) -> PaymentCaptured:
        return captured

    saga = saga_with(("pay", (PaymentCaptured, PaymentPostponed)))
    saga.step("ship", do=sure, done_on=ParcelSent)
    with pytest.raises(DefinitionError, match=r"which pay may not have given by then: ask for PaymentCaptured \| None"):
        _ = saga.definition
    other = saga_with(("pay", (PaymentCaptured, PaymentPostponed)))
    assert given(other, refund, pay=PaymentPostponed(order_id="o-1")).payment_id is None


def test_a_parameter_that_names_no_event_is_refused() -> None:
    def note(order: OrderWanted, note: str = "x") -> None: ...
    def bare(order: OrderWanted, captured) -> None: ...  # type: ignore[no-untyped-def]
    def many(order: OrderWanted, *captured: PaymentCaptured) -> None: ...
    def only_none(order: OrderWanted, captured: None) -> None: ...

    for function in (note, bare, many, only_none):
        with pytest.raises(
            DefinitionError, match=rf"of {function.__name__} names no result: annotate it with the event"
        ):
            needs_of(function)


def test_a_function_without_arguments_is_refused() -> None:
    def nothing() -> None: ...

    with pytest.raises(DefinitionError, match=r"nothing takes no arguments: its first is the saga's context."):
        needs_of(nothing)


def test_types_that_cannot_be_read_are_refused() -> None:
    def vague(order: OrderWanted, captured: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(DefinitionError, match=r"The types of vague cannot be read"):
        needs_of(vague)


def test_a_result_is_stored_and_read_back_by_type_and_version() -> None:
    pay = saga_with(("pay", (PaymentPostponed, PaymentCaptured))).definition.step("pay")
    stored = stored_result(CAPTURED)
    assert stored == {"type": "payment.captured", "version": 1, "data": {"order_id": "o-1", "payment_id": "p-9"}}
    assert parse_result(pay, stored) == CAPTURED
    assert parse_result(pay, None) is None
    assert parse_result(pay, {**stored, "version": 2}) is None
    assert parse_result(pay, stored_result(StockReserved(order_id="o-1"))) is None


def test_branches_choose_by_results_too() -> None:
    def by(order: OrderWanted, reserved: StockReserved) -> str:
        return reserved.shelf

    saga = Saga("order", version=1, starts_on=OrderWanted)
    saga.step("reserve", do=reserve, done_on=StockReserved)
    saga.branch("shelf", by=by).path("A1").step("ship", do=send, done_on=OrderConfirmed)
    assert given(saga, by, reserve=StockReserved(order_id="o-1", shelf="B2")) == "B2"
