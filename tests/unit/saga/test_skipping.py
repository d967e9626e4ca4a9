"""The result given for a step that is skipped must be one that the step could have given."""

from datetime import timedelta

import pytest

from surefoot.saga import NotNow, Saga
from surefoot.saga.operating import result_for_skip
from tests.support.saga.order_sagas import order_saga, pickup_saga, send
from tests.support.shop_types import Collected, OrderWanted, ParcelSent, PaymentCaptured, StockReserved

ORDER = order_saga().definition


def test_a_result_of_the_step_is_taken_as_it_is_stored() -> None:
    assert result_for_skip(ORDER, "pay", PaymentCaptured(order_id="o-1", payment_id="p-2")) == {
        "type": "payment.captured",
        "version": 1,
        "data": {"order_id": "o-1", "payment_id": "p-2"},
    }


def test_a_result_of_another_kind_is_refused() -> None:
    with pytest.raises(NotNow, match=r"pay is done on PaymentCaptured, not on StockReserved: give such a result."):
        result_for_skip(ORDER, "pay", StockReserved(order_id="o-1"))


def test_no_result_is_refused_where_others_rely_on_it() -> None:
    with pytest.raises(NotNow, match=r"Others need the result of pay: give the PaymentCaptured that it is to be taken"):
        result_for_skip(ORDER, "pay", None)


def test_no_result_is_fine_where_others_can_do_without() -> None:
    assert result_for_skip(ORDER, "reserve", None) is None
    assert result_for_skip(ORDER, "ship", None) is None
    assert result_for_skip(pickup_saga().definition, "collected", None) is None


def test_a_branch_and_what_a_wait_tells_rely_on_results_too() -> None:
    def by(order: OrderWanted, collected: Collected) -> str:
        return collected.driver

    def tell(order: OrderWanted, sent: ParcelSent) -> ParcelSent:
        return sent

    saga = Saga("order", version=1, starts_on=OrderWanted)
    saga.step("ship", do=send, done_on=ParcelSent)
    saga.wait("collected", until=Collected, deadline=timedelta(1), tell=tell)
    saga.branch("driver", by=by).path("Ann")
    for name in ("ship", "collected"):
        with pytest.raises(NotNow, match=rf"Others need the result of {name}"):
            result_for_skip(saga.definition, name, None)
