"""Skipping a step: the result that is given must be one that the step could have given."""

import json
from datetime import timedelta

import pytest

from schemas.order import PlacementRequested
from schemas.payment import CapturePayment, PaymentCaptured, PaymentVoided
from schemas.warehouse import ReleaseStock, ReserveStock, StockReleased, StockReserved
from surefoot.errors import ConfigurationError
from surefoot.orchestrator.operators import Outcome, operate
from surefoot.orchestrator.possible import Given
from surefoot.saga import NotNow, Saga
from surefoot.saga.stimulus import Operated
from tests.support.saga.stored_sagas import PRICE, Ground, captured, ground_at, pending, placement, reserved

GOOD = captured("order-1").model_dump(mode="json")


async def skip(
    ground: Ground, saga_id: str, step: str, result: object = None, type_: str | None = None, why: str = "by hand"
) -> Outcome:
    text = result if isinstance(result, str) else json.dumps(result)
    given = None if result is None else Given(text, type_)
    return await operate(ground.connection, ground.store, saga_id, Operated("skip", "Ada", why, step), given=given)


async def test_a_result_that_fits_is_what_later_steps_get(ground: Ground) -> None:
    saga_id = await ground.order_with_stock("order-1")
    outcome = await skip(ground, saga_id, "capture_payment", {**GOOD, "payment_id": "p-77"})
    assert (outcome.after, outcome.awaits) == ("RUNNING", ("confirm_order", "do"))
    sent = await ground.connection.fetchval(
        "SELECT payload FROM surefoot.outbox WHERE event_type = 'order.confirm' AND key = $1", saga_id
    )
    assert json.loads(sent)["payment_id"] == "p-77"
    assert ("SKIPPED", "capture_payment", "Ada: by hand") in await ground.history(saga_id)


@pytest.mark.parametrize(
    ("result", "says"),
    [
        (None, r"Others need the result of capture_payment: .* Say --result '\{\"order_id\": …, \"payment_id\": …"),
        ("{no", r"The result is no JSON .*: give the data of payment\.captured"),
        ([GOOD], r"The result has to be a JSON object, the data of payment\.captured"),
        ({**GOOD, "paymentid": "x"}, r"payment\.captured has no paymentid: its members are order_id, payment_id"),
        ({"order_id": "order-1"}, r"does not fit payment\.captured: payment_id: Field required; gateway: Field"),
        ({**GOOD, "amount": 12.5}, r"does not fit payment\.captured: An amount of money was given as a float"),
        ({**GOOD, "gateway": "a\x00b"}, r"has a NUL character"),
    ],
)
async def test_a_result_that_does_not_fit_is_refused_and_nothing_changes(
    ground: Ground, result: object, says: str
) -> None:
    saga_id = await ground.order_with_stock("order-1")
    history, published = await ground.history(saga_id), await ground.published()
    with pytest.raises(NotNow, match=says):
        await skip(ground, saga_id, "capture_payment", result)
    assert await ground.status(saga_id) == ("RUNNING", "capture_payment", "do")
    assert (await ground.history(saga_id), await ground.published()) == (history, published)


async def test_a_type_that_is_none_of_the_steps_is_refused(ground: Ground) -> None:
    saga_id = await ground.order_with_stock("order-1")
    with pytest.raises(NotNow, match=r"capture_payment is not done on payment\.failed; it is on payment\.captured\."):
        await skip(ground, saga_id, "capture_payment", GOOD, "payment.failed")
    assert (await skip(ground, saga_id, "capture_payment", GOOD, "payment.captured.v1")).after == "RUNNING"


async def test_where_nobody_needs_the_result_none_has_to_be_given(ground: Ground) -> None:
    saga_id = await ground.begin_order("order-1")
    assert (await skip(ground, saga_id, "create_order")).awaits == ("reserve_stock", "do")


async def test_an_undo_is_skipped_without_a_result(ground: Ground) -> None:
    saga_id = await ground.order_with_stock("order-1")
    compensate = Operated("compensate", "Ada", "the buyer called")
    await operate(ground.connection, ground.store, saga_id, compensate)
    with pytest.raises(NotNow, match="The undo of capture_payment is awaited, and an undo has no result"):
        await skip(ground, saga_id, "capture_payment", GOOD)
    outcome = await skip(ground, saga_id, "capture_payment")
    assert (outcome.direction, outcome.awaits) == ("undo", ("reserve_stock", "undo"))


async def test_the_same_skip_never_skips_the_undo_of_the_step_as_well(ground: Ground) -> None:
    saga_id = await ground.begin_order("order-1")
    await skip(ground, saga_id, "create_order")
    await operate(ground.connection, ground.store, saga_id, Operated("compensate", "Ada", "the buyer called"))
    while (await ground.status(saga_id))[1] != "create_order":
        await skip(ground, saga_id, "reserve_stock", why="nothing was reserved")
    assert await ground.status(saga_id) == ("COMPENSATING", "create_order", "undo")
    with pytest.raises(NotNow, match="That was decided already"):
        await skip(ground, saga_id, "create_order")
    assert (await skip(ground, saga_id, "create_order", why="cancelled by hand")).after == "COMPENSATED"


async def test_a_wait_is_skipped_as_if_its_event_had_come(ground: Ground) -> None:
    saga_id = await ground.stuck_return("return-1")
    outcome = await skip(ground, saga_id, "pickup")
    assert (outcome.after, outcome.awaits, outcome.sent) == (
        "RUNNING",
        ("inspect", "do"),
        ("warehouse.inspect_return",),
    )


def reserve(order: PlacementRequested) -> ReserveStock:
    return ReserveStock(order_id=order.order_id, checkout_session_id="s-1", lines=reserved(order.order_id).lines)


def release(order: PlacementRequested, paid: PaymentCaptured | PaymentVoided) -> ReleaseStock:
    raise RuntimeError(f"No idea how to release {paid.payment_id}.")


def capture(order: PlacementRequested) -> CapturePayment:
    return CapturePayment(order_id=order.order_id, customer_id="c-1", amount=PRICE)


def two_ways() -> Saga:
    saga = Saga("two_ways", version=1, starts_on=PlacementRequested)
    saga.step("pay", do=capture, done_on=(PaymentCaptured, PaymentVoided), nothing_to_undo=True)
    saga.step("reserve", do=release, done_on=StockReserved, undo=reserve, undone_on=StockReleased)
    saga.wait("later", until=StockReserved, deadline=timedelta(days=1))
    return saga


async def test_a_step_done_on_several_types_wants_to_know_which(database_url: str) -> None:
    async with ground_at(database_url, [two_ways()]) as ground:
        saga_id = await ground.begin(placement("order-1"))
        for result in (None, GOOD):
            with pytest.raises(NotNow, match=r"pay is done on any of payment\.captured, payment\.voided: say which"):
                await skip(ground, saga_id, "pay", result)
        with pytest.raises(NotNow, match=r"pay is not done on order\.pending_payment; it is on payment\.captured, "):
            await skip(ground, saga_id, "pay", pending("order-1").model_dump(mode="json"), "order.pending_payment")


async def test_a_function_of_the_definition_that_raises_leaves_the_saga_as_it_was(database_url: str) -> None:
    async with ground_at(database_url, [two_ways()]) as ground:
        saga_id = await ground.begin(placement("order-1"))
        voided = {"order_id": "order-1", "payment_id": "p-9"}
        says = r"of two_ways version 1 raised RuntimeError: No idea how to release p-9\. Nothing was changed\."
        with pytest.raises(ConfigurationError, match=says):
            await skip(ground, saga_id, "pay", voided, "payment.voided")
        assert await ground.status(saga_id) == ("RUNNING", "pay", "do")
        assert (await ground.history(saga_id))[-1] == ("SENT", "pay", None)
