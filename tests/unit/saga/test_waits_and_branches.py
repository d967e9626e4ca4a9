"""Waits for events from outside, with deadlines; and branches."""

from datetime import timedelta

import pytest

from surefoot.saga import DefinitionError, Saga
from surefoot.saga.instance import Timer
from surefoot.saga.stimulus import Fired
from tests.support.saga.engine_driver import Driven
from tests.support.saga.order_sagas import TWICE, pickup_saga, refund, release, reserve, send
from tests.support.shop_types import (
    Collected,
    OrderConfirmed,
    OrderWanted,
    ParcelSent,
    PaymentRefunded,
    RefundPayment,
    StockReleased,
    StockReserved,
)

PICKUP = pickup_saga().definition


def kind_of(order: OrderWanted) -> str:
    return "gift" if order.gift else "plain"


def ask(order: OrderWanted) -> Collected:
    return Collected(order_id=order.order_id)


def branching_saga() -> Saga:
    """Reserve; a gift is collected and shipped, anything else goes on at once; then confirm."""
    saga = Saga("branching", version=1, starts_on=OrderWanted)
    saga.step("reserve", do=reserve, done_on=StockReserved, undo=release, undone_on=StockReleased, retry=TWICE)
    kind = saga.branch("kind", by=kind_of)
    gift = kind.path("gift")
    gift.wait("collected", until=Collected, deadline=timedelta(days=1), when_late="undo")
    wrapped = gift.branch("wrapped", by=kind_of)
    wrapped.path("paper").step("ship", do=send, done_on=ParcelSent, undo=ask, undone_on=PaymentRefunded)
    wrapped.path("none")
    kind.path("plain")
    saga.step("confirm", do=send, done_on=OrderConfirmed, refused_on=PaymentRefunded, nothing_to_undo=True)
    return saga


BRANCHING = branching_saga().definition


def test_a_wait_sends_nothing_and_has_a_deadline() -> None:
    saga = Driven(PICKUP).done("reserve")
    assert (saga.status, saga.sent) == ("RUNNING", [])
    assert saga.last.arm == Timer("collected", "do", 0, "deadline", timedelta(days=3))


def test_the_event_that_is_waited_for_lets_the_saga_go_on() -> None:
    saga = Driven(PICKUP).done("reserve").arrived("collected", {"driver": "Bob"})
    assert (saga.sent, saga.states["collected"]) == (["do ship 1"], "DONE")
    record = saga.saga.record("collected")
    assert record is not None
    assert record.result == {"driver": "Bob"}


def test_an_event_that_comes_before_it_is_waited_for_is_kept() -> None:
    saga = Driven(PICKUP).arrived("collected", {"driver": "Bob"})
    assert (saga.saga.arrived, saga.notes, saga.timer) == (
        (("collected", {"driver": "Bob"}),),
        ["ARRIVED"],
        "timeout do reserve 1",
    )
    saga.done("reserve")
    assert (saga.sent, saga.states, saga.saga.arrived) == (
        ["do ship 1"],
        {"reserve": "DONE", "collected": "DONE", "ship": "AWAITED"},
        (),
    )


def test_an_event_that_comes_early_twice_is_kept_as_it_came_first() -> None:
    saga = Driven(PICKUP).arrived("collected", 1).arrived("collected", 2)
    assert (saga.saga.arrived, saga.notes) == ((("collected", 1),), ["IGNORED"])


def test_an_event_that_comes_again_after_its_wait_is_ignored() -> None:
    saga = Driven(PICKUP).done("reserve").arrived("collected")
    before = saga.saga
    saga.arrived("collected")
    assert (saga.saga, saga.notes) == (before, ["IGNORED"])
    assert saga.last.notes[0].sentence == "it is not waited for any more"


def test_an_event_for_no_wait_of_this_saga_is_ignored() -> None:
    saga = Driven(PICKUP)
    before = saga.saga
    for name in ("reserve", "nowhere"):
        saga.arrived(name)
        assert (saga.saga, saga.notes) == (before, ["IGNORED"])


def test_a_wait_that_is_late_is_stuck_and_tells() -> None:
    saga = Driven(PICKUP).done("reserve").time_passes()
    assert (saga.status, saga.told, saga.states["collected"]) == ("STUCK", ["collected"], "AWAITED")
    assert saga.notes == ["LATE", "STUCK"]
    assert saga.last.notes[1].sentence == "collected did not come in time."


def test_a_late_event_still_lets_a_stuck_wait_go_on() -> None:
    saga = Driven(PICKUP).done("reserve").time_passes().arrived("collected")
    assert (saga.status, saga.sent) == ("RUNNING", ["do ship 1"])


def test_a_wait_may_undo_the_saga_when_it_is_late_and_tells_then_too() -> None:
    saga = Driven(pickup_saga("undo").definition).done("reserve").time_passes()
    assert (saga.status, saga.sent, saga.told) == ("COMPENSATING", ["undo reserve 1"], ["collected"])
    assert saga.states["collected"] == "LEFT"
    assert saga.last.notes[1].sentence == "collected did not come in time."
    saga.arrived("collected")
    assert (saga.notes, saga.states["collected"]) == (["IGNORED"], "LEFT")


def test_an_event_is_not_kept_for_a_saga_that_is_being_undone() -> None:
    saga = Driven(PICKUP).never_answers()
    assert saga.status == "COMPENSATING"
    undoing = saga.saga
    saga.arrived("collected")
    assert (saga.saga, saga.notes) == (undoing, ["IGNORED"])
    saga.never_answers()
    assert saga.status == "STUCK"
    stuck = saga.saga
    saga.arrived("collected")
    assert (saga.saga, saga.notes) == (stuck, ["IGNORED"])


def test_an_operator_lets_a_stuck_wait_wait_once_more_and_its_old_timer_is_told_from_the_new() -> None:
    saga = Driven(PICKUP).done("reserve").time_passes().operate("retry")
    assert (saga.status, saga.timer, saga.armed) == ("RUNNING", "deadline do collected 1", True)
    waiting = saga.saga
    saga.take(Fired("collected", "do", 0, "deadline"))
    assert saga.saga == waiting
    assert saga.time_passes().status == "STUCK"


def test_a_branch_goes_the_way_that_is_chosen() -> None:
    saga = Driven(BRANCHING, kind="plain").done("reserve")
    assert (saga.sent, saga.saga.choices) == (["do confirm 1"], (("kind", "plain"),))
    assert saga.notes == ["DONE", "CHOSEN", "SENT"]
    assert saga.done("confirm").status == "COMPLETED"


def test_a_branch_inside_a_branch_joins_what_follows_both() -> None:
    saga = Driven(BRANCHING, kind="gift", wrapped="paper").done("reserve").arrived("collected")
    assert (saga.sent, saga.saga.choices) == (["do ship 1"], (("kind", "gift"), ("wrapped", "paper")))
    assert saga.done("ship").sent == ["do confirm 1"]
    assert saga.refused("confirm").sent == ["undo ship 1"]
    assert saga.undone("ship").sent == ["undo reserve 1"]


def test_an_empty_path_leads_straight_to_what_follows() -> None:
    saga = Driven(BRANCHING, kind="gift", wrapped="none").done("reserve").arrived("collected")
    assert saga.sent == ["do confirm 1"]


def test_an_event_for_a_wait_on_a_path_not_taken_changes_nothing_of_the_way() -> None:
    saga = Driven(BRANCHING, kind="plain").arrived("collected").done("reserve")
    assert saga.sent == ["do confirm 1"]
    saga.done("confirm")
    assert (saga.status, saga.states) == ("COMPLETED", {"reserve": "DONE", "confirm": "DONE"})


def test_a_choice_is_made_once() -> None:
    saga = Driven(BRANCHING, kind="gift", wrapped="none").done("reserve")
    saga._choices = {"kind": "plain", "wrapped": "paper"}
    assert saga.arrived("collected").sent == ["do ship 1"]


def test_a_choice_that_is_no_path_is_an_error_with_a_sentence() -> None:
    with pytest.raises(
        DefinitionError, match=r"The choice of kind is 'red', which is none of its paths \(gift, plain\)"
    ):
        Driven(BRANCHING, kind="red").done("reserve")


def test_a_saga_may_begin_with_a_branch_or_a_wait() -> None:
    saga = Saga("early", version=1, starts_on=OrderWanted)
    first = saga.branch("kind", by=kind_of)
    first.path("gift").wait("collected", until=Collected, deadline=timedelta(days=1))
    first.path("plain").step("pay_back", do=refund_nothing, done_on=PaymentRefunded, nothing_to_undo=True)
    first.path("nothing")
    assert Driven(saga.definition, kind="plain").sent == ["do pay_back 1"]
    assert Driven(saga.definition, kind="gift").timer == "deadline do collected 0"
    assert Driven(saga.definition, kind="nothing").status == "COMPLETED"


def refund_nothing(order: OrderWanted) -> RefundPayment:
    return refund(order, None)
