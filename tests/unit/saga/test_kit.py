"""The kit for users' own tests: given this, expect that."""

import pytest

from surefoot.saga import NotNow, Saga
from surefoot.testing.saga_kit import SagaKit
from tests.support.saga.order_sagas import order_saga, pickup_saga, send
from tests.support.shop_types import (
    CapturePayment,
    Collected,
    ConfirmOrder,
    OrderConfirmed,
    OrderFinished,
    OrderNeedsHelp,
    OrderRefused,
    OrderWanted,
    ParcelSent,
    PaymentCaptured,
    PaymentRefunded,
    RefundPayment,
    ReleaseStock,
    ReserveStock,
    SendParcel,
    StockRejected,
    StockReleased,
    StockReserved,
)

WANTED = OrderWanted(order_id="o-1", total=7)
RESERVED = StockReserved(order_id="o-1", shelf="B2")
CAPTURED = PaymentCaptured(order_id="o-1", payment_id="p-9")
RESERVE = ReserveStock(order_id="o-1")
CAPTURE = CapturePayment(order_id="o-1", total=7)


def started(saga: Saga | None = None) -> SagaKit:
    kit = SagaKit(saga or order_saga())
    kit.given(WANTED)
    return kit


def paid() -> SagaKit:
    kit = started()
    kit.reply(RESERVED)
    kit.reply(CAPTURED)
    return kit


def confirmed() -> SagaKit:
    kit = paid()
    kit.reply(OrderConfirmed(order_id="o-1"))
    return kit


def test_a_saga_is_followed_from_its_start_to_its_end() -> None:
    kit = started()
    kit.expect(RESERVE)
    kit.reply(RESERVED)
    kit.expect(CAPTURE)
    kit.reply(CAPTURED)
    kit.expect(ConfirmOrder(order_id="o-1", payment_id="p-9"))
    kit.reply(OrderConfirmed(order_id="o-1"))
    kit.expect(SendParcel(order_id="o-1"))
    kit.reply(ParcelSent(order_id="o-1"))
    kit.expect_told(OrderFinished(order_id="o-1"))
    kit.expect_ended("COMPLETED")
    assert kit.status == "COMPLETED"


def test_a_refusal_is_followed_back_and_undos_get_the_results_they_ask_for() -> None:
    kit = paid()
    kit.refuse(OrderRefused(order_id="o-1"))
    kit.expect(RefundPayment(order_id="o-1", payment_id="p-9"))
    kit.reply(PaymentRefunded(order_id="o-1"))
    kit.expect(ReleaseStock(order_id="o-1", shelf="B2"))
    kit.reply(StockReleased(order_id="o-1"))
    kit.expect_nothing()
    kit.expect_ended("COMPENSATED")


def test_a_refusal_with_nothing_to_undo_ends_failed() -> None:
    kit = started()
    kit.reply(StockRejected(order_id="o-1"))
    kit.expect_ended("FAILED")


def test_a_command_that_dies_is_undone_without_a_result() -> None:
    kit = started()
    kit.reply(RESERVED)
    kit.fail("the card reader is on fire")
    kit.expect(RefundPayment(order_id="o-1", payment_id=None))
    assert [note.kind for note in kit.history][-3:] == ["FAILED", "COMPENSATING", "SENT"]
    assert "the card reader is on fire" in kit.history[-2].sentence


def test_a_step_that_times_out_is_sent_again_and_then_undone() -> None:
    kit = started()
    kit.time_out()
    kit.expect(RESERVE)
    kit.time_out()
    kit.expect(ReleaseStock(order_id="o-1", shelf=None))


def test_a_step_that_never_answers_is_given_up_and_so_is_its_undo() -> None:
    kit = started()
    kit.never_answers()
    kit.expect(ReleaseStock(order_id="o-1"))
    kit.never_answers()
    kit.expect_stuck("reserve")
    kit.expect_told(OrderNeedsHelp(order_id="o-1"))


def test_a_late_reply_to_the_first_attempt_counts() -> None:
    kit = started()
    kit.time_out()
    kit.reply(RESERVED, attempt=1)
    kit.expect(CAPTURE)


def test_a_reply_that_comes_twice_and_one_to_a_step_long_over_do_nothing() -> None:
    kit = started()
    kit.reply(RESERVED)
    kit.repeat()
    kit.expect_nothing()
    kit.reply(CAPTURED)
    kit.reply(RESERVED, step="reserve")
    kit.expect_nothing()
    assert kit.history[-1].kind == "IGNORED"


def test_a_reply_to_an_undo_that_is_over_does_nothing() -> None:
    kit = paid()
    kit.refuse(OrderRefused(order_id="o-1"))
    kit.reply(PaymentRefunded(order_id="o-1"))
    kit.reply(PaymentRefunded(order_id="o-1"), step="pay")
    kit.expect_nothing()
    assert (kit.history[-1].kind, kit.history[-1].direction) == ("IGNORED", "undo")


def test_a_wait_is_met_by_its_event() -> None:
    kit = started(pickup_saga())
    kit.reply(RESERVED)
    kit.expect_nothing()
    kit.expect_waiting("collected")
    kit.arrives(Collected(order_id="o-1"))
    kit.expect(SendParcel(order_id="o-1"))


def test_an_event_may_come_before_it_is_waited_for() -> None:
    kit = started(pickup_saga())
    kit.arrives(Collected(order_id="o-1"))
    kit.expect_nothing()
    kit.reply(RESERVED)
    kit.expect(SendParcel(order_id="o-1"))


def test_a_wait_that_is_late_tells_and_is_stuck() -> None:
    kit = started(pickup_saga())
    kit.reply(RESERVED)
    kit.late()
    kit.expect_told(OrderNeedsHelp(order_id="o-1", because="nobody collected it"))
    kit.expect_stuck("collected")
    kit.expect_stuck()


def test_people_act_through_the_operator() -> None:
    kit = started()
    kit.operator.pause("ann", "a recall")
    assert kit.status == "PAUSED"
    kit.reply(RESERVED)
    kit.expect_nothing()
    kit.operator.resume("ann", "false alarm")
    kit.expect(CAPTURE)
    kit.operator.retry("ann", "try again")
    kit.expect(CAPTURE)
    kit.operator.skip("ann", "paid in cash", result=CAPTURED)
    kit.expect(ConfirmOrder(order_id="o-1", payment_id="p-9"))
    with pytest.raises(NotNow, match=r"past its point of no return"):
        kit.operator.compensate("ann", "changed my mind")
    assert kit.history[2].sentence == "ann: a recall"


def test_an_operator_who_compensates_is_followed_back() -> None:
    kit = started()
    kit.reply(RESERVED)
    kit.operator.compensate("ann", "the buyer called")
    kit.expect(RefundPayment(order_id="o-1", payment_id=None))
    kit.operator.skip("ann", "nothing was captured")
    kit.expect(ReleaseStock(order_id="o-1", shelf="B2"))


def test_a_skip_without_the_result_that_others_need_is_refused() -> None:
    kit = started()
    kit.reply(RESERVED)
    with pytest.raises(NotNow, match=r"Others need the result of pay"):
        kit.operator.skip("ann", "paid in cash")


def test_a_branch_goes_by_what_the_saga_knows() -> None:
    def shelf(order: OrderWanted, reserved: StockReserved) -> str:
        return reserved.shelf

    saga = order_saga()
    by_shelf = saga.branch("shelf", by=shelf)
    by_shelf.path("A1")
    by_shelf.path("B2").step("fetch", do=send, done_on=ParcelSent)
    kit = started(saga)
    for answer in (RESERVED, CAPTURED, OrderConfirmed(order_id="o-1"), ParcelSent(order_id="o-1")):
        kit.reply(answer)
    kit.expect(SendParcel(order_id="o-1"))
    assert kit.history[-2].sentence == "B2"


def test_an_event_that_does_not_start_a_saga_starts_none() -> None:
    saga = Saga("gifts", version=1, starts_on=OrderWanted, starts_when=lambda order: order.gift)
    saga.step("ship", do=send, done_on=ParcelSent, nothing_to_undo=True)
    kit = SagaKit(saga)
    kit.given(WANTED)
    before = kit.started
    kit.given(OrderWanted(order_id="o-1", gift=True))
    assert (before, kit.started) == (False, True)
    kit.expect(SendParcel(order_id="o-1"))


def test_the_kit_says_how_it_stands() -> None:
    kit = SagaKit(order_saga())
    assert repr(kit) == "<SagaKit order: Nothing has started.>"
    kit.given(WANTED)
    assert repr(kit) == (
        "<SagaKit order: It is RUNNING and awaits the do of reserve. Last in its history: SENT reserve>"
    )
    kit.refuse(StockRejected(order_id="o-1"))
    assert repr(kit) == "<SagaKit order: It is FAILED. Last in its history: ENDED_FAILED>"


def test_nothing_is_sent_by_what_came_before() -> None:
    kit = confirmed()
    assert kit.sent == [SendParcel(order_id="o-1")]
    kit.repeat()
    assert kit.sent == []
