"""The kit's expectations fail when they should, with a sentence; and what could never happen is a misuse of it."""

from collections.abc import Callable

import pytest

from surefoot.errors import UndeclaredEvent
from surefoot.events import EventData
from surefoot.saga import Saga
from surefoot.testing.saga_kit import KitMisuse, SagaKit
from tests.support.saga.order_sagas import order_saga, pickup_saga, reserve
from tests.support.shop_types import (
    CapturePayment,
    Collected,
    OrderFinished,
    OrderNeedsHelp,
    OrderWanted,
    ParcelSent,
    PaymentCaptured,
    ReserveStock,
    StockRejected,
    StockReleased,
    StockReserved,
)
from tests.unit.saga.test_kit import CAPTURE, RESERVE, RESERVED, WANTED, started


def fails(sentence: str, expectation: Callable[[], None]) -> None:
    with pytest.raises(AssertionError) as caught:
        expectation()
    assert str(caught.value) == sentence


def misuses(sentence: str, action: Callable[[], None]) -> None:
    with pytest.raises(KitMisuse) as caught:
        action()
    assert str(caught.value) == sentence


def waiting() -> SagaKit:
    kit = started(pickup_saga())
    kit.reply(RESERVED)
    return kit


STANDS = "It is RUNNING and awaits the do of reserve. Last in its history: SENT reserve"


def test_another_command_than_expected() -> None:
    fails(
        "Expected CapturePayment(order_id='o-1', total=7) to be sent, and it was ReserveStock(order_id='o-1'). "
        + STANDS,
        lambda: started().expect(CAPTURE),
    )


def test_the_right_command_with_other_data() -> None:
    fails(
        "Expected ReserveStock(order_id='o-2') to be sent, and it was ReserveStock(order_id='o-1'). " + STANDS,
        lambda: started().expect(ReserveStock(order_id="o-2")),
    )


def test_a_command_where_none_was_expected() -> None:
    sentence = "Expected nothing to be sent, and it was ReserveStock(order_id='o-1'). " + STANDS
    fails(sentence, lambda: started().expect())
    fails(sentence, lambda: started().expect_nothing())


def test_no_command_where_one_was_expected() -> None:
    kit = started()
    kit.refuse(StockRejected(order_id="o-1"))
    fails(
        "Expected ReserveStock(order_id='o-1') to be sent, and it was nothing. It is FAILED. Last in its history: "
        "ENDED_FAILED",
        lambda: kit.expect(RESERVE),
    )


def test_more_commands_than_came() -> None:
    with pytest.raises(AssertionError, match=r"to be sent, and it was"):
        started().expect(RESERVE, RESERVE)


def test_an_expectation_is_not_met_by_what_was_sent_before() -> None:
    kit = started()
    kit.reply(RESERVED)
    with pytest.raises(AssertionError, match=r"Expected ReserveStock\(order_id='o-1'\) to be sent, and it was Capture"):
        kit.expect(RESERVE)


def test_something_told_where_nothing_was_expected_and_the_other_way_round() -> None:
    kit = waiting()
    kit.late()
    stands = (
        "It is STUCK and awaits the do of collected. Last in its history: STUCK collected collected did not come in "
        "time."
    )
    told = "OrderNeedsHelp(order_id='o-1', because='nobody collected it')"
    fails(f"Expected nothing to be told, and it was {told}. {stands}", kit.expect_nothing)
    fails(
        f"Expected OrderFinished(order_id='o-1') to be told, and it was {told}. {stands}",
        lambda: kit.expect_told(OrderFinished(order_id="o-1")),
    )
    with pytest.raises(AssertionError, match=r"to be told, and it was nothing"):
        started().expect_told(OrderNeedsHelp(order_id="o-1"))


def test_another_end_than_expected() -> None:
    fails("Expected the saga to have ended COMPLETED. " + STANDS, lambda: started().expect_ended("COMPLETED"))
    kit = started()
    kit.refuse(StockRejected(order_id="o-1"))
    with pytest.raises(AssertionError, match=r"Expected the saga to have ended COMPENSATED. It is FAILED"):
        kit.expect_ended("COMPENSATED")


def test_a_saga_that_is_not_stuck_or_over_something_else() -> None:
    fails("Expected the saga to be stuck. " + STANDS, lambda: started().expect_stuck())
    kit = waiting()
    kit.late()
    with pytest.raises(AssertionError, match=r"Expected the saga to be stuck over reserve. It is STUCK and awaits the"):
        kit.expect_stuck("reserve")


def test_a_saga_that_does_not_wait_or_for_something_else() -> None:
    fails(
        "Expected the saga to wait for collected. " + STANDS,
        lambda: started(pickup_saga()).expect_waiting("collected"),
    )
    kit = waiting()
    kit.late()
    with pytest.raises(AssertionError, match=r"Expected the saga to wait for collected. It is STUCK"):
        kit.expect_waiting("collected")


def test_stuck_is_no_end() -> None:
    misuses(
        "STUCK is no end; ends are COMPENSATED, COMPLETED, FAILED. For STUCK, use expect_stuck.",
        lambda: started().expect_ended("STUCK"),
    )


def test_a_saga_that_was_never_started_or_is_started_twice() -> None:
    for action in (lambda: SagaKit(order_saga()).expect(), lambda: SagaKit(order_saga()).fail()):
        misuses("No saga has started: give the kit the event that starts it.", action)
    misuses("This kit runs a saga already: take a new kit for another one.", lambda: started().given(WANTED))
    misuses("order starts on OrderWanted, not on StockReserved.", lambda: SagaKit(order_saga()).given(RESERVED))


def test_an_answer_that_the_step_awaited_never_gives() -> None:
    misuses(
        "PaymentCaptured does not answer the do of reserve: it is done on StockReserved and refused on StockRejected.",
        lambda: started().reply(PaymentCaptured(order_id="o-1")),
    )
    kit = started()
    kit.never_answers()
    misuses(
        "StockReserved does not answer the undo of reserve: it is undone on StockReleased.",
        lambda: kit.reply(RESERVED),
    )


def test_a_refusal_that_is_none() -> None:
    misuses(
        "StockReserved is no refusal of reserve: it is done on StockReserved and refused on StockRejected.",
        lambda: started().refuse(RESERVED),
    )


def test_an_answer_of_a_step_that_was_never_sent() -> None:
    misuses(
        "ship was never sent a command, so nobody can answer it.",
        lambda: started().reply(ParcelSent(order_id="o-1"), step="ship"),
    )
    misuses(
        "reserve was never sent its undo, so nobody can answer it.",
        lambda: started().reply(StockReleased(order_id="o-1"), step="reserve"),
    )


def test_an_answer_where_an_event_is_waited_for_and_the_other_way_round() -> None:
    sentence = "The saga waits for collected, an event from outside: let it arrive, or be late."
    kit = waiting()
    for action in (lambda: kit.reply(RESERVED), kit.fail, kit.time_out, kit.never_answers):
        misuses(sentence, action)
    misuses(
        "The saga awaits the answer of reserve, which is a step: let it time_out.",
        lambda: started().late(),
    )
    misuses("No wait of order is for Collected.", lambda: started().arrives(Collected(order_id="o-1")))


def test_an_event_about_something_else() -> None:
    misuses(
        "The event is about 'o-2' and the saga about 'o-1', so it would never reach it: look at the event's key, or at "
        "what the wait says is its entity.",
        lambda: waiting().arrives(Collected(order_id="o-2")),
    )


def test_time_that_does_not_run_and_answers_that_nobody_awaits() -> None:
    kit = started()
    kit.operator.pause("ann", "a recall")
    misuses("The saga is PAUSED, and no time runs for it.", kit.time_out)
    kit = started()
    kit.refuse(StockRejected(order_id="o-1"))
    misuses("The saga is FAILED and awaits nothing any more.", lambda: kit.reply(RESERVED))


def test_nothing_to_repeat() -> None:
    misuses("Nothing has come yet that could be repeated.", lambda: started().repeat())


def test_a_function_that_returns_what_cannot_be_sent() -> None:
    class Undeclared(EventData):
        order_id: str

    def text(order: OrderWanted) -> CapturePayment:
        return "pay!"  # type: ignore[return-value]

    def undeclared(order: OrderWanted) -> Undeclared:
        return Undeclared(order_id="o-1")

    def saga(do: Callable[[OrderWanted], EventData]) -> SagaKit:
        made = Saga("odd", version=1, starts_on=OrderWanted)
        made.step("pay", do=do, done_on=StockReserved)
        return started(made)

    with pytest.raises(KitMisuse, match=r"text returned 'pay!', which cannot be sent: it must return the data of a"):
        saga(text)
    with pytest.raises(UndeclaredEvent, match=r"was never declared as an event"):
        saga(undeclared)
    saga(reserve).expect(RESERVE)
