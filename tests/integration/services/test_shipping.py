"""Shipping: one parcel for an order, one label for a return, a pickup told once."""

import asyncpg
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

from consumers.shipping import NoParcel, confirm_pickup, shipping
from schemas.shipping import (
    CancelReturnLabel,
    CreateReturnLabel,
    RequestShipment,
    ReturnLabelCancelled,
    ReturnLabelCreated,
    ReturnLabelRefused,
    ReturnShippedBack,
    ShipBack,
    ShipmentRequested,
)
from surefoot.testing.consumer_kit import ConsumerKit
from tests.support.services.goods import HOME, flows, goods, published

pytestmark = pytest.mark.slow  # many of them, each with a database of its own

LABEL = CreateReturnLabel(order_id="o-1", return_id="r-1", ship_from=HOME)
MADE = ReturnLabelCreated(order_id="o-1", return_id="r-1", carrier="air-freight", tracking_code="track-r-1")
CANCEL = CancelReturnLabel(order_id="o-1", return_id="r-1")


@pytest.fixture
def kit(session: AsyncSession) -> ConsumerKit:
    return ConsumerKit(shipping, session=session)


async def test_an_order_is_shipped_once(
    kit: ConsumerKit, session: AsyncSession, connection: asyncpg.Connection
) -> None:
    wish = RequestShipment(order_id="o-1", lines=goods(table=2), ship_to=HOME)
    for saga in ("g-1", "g-2"):
        await kit.command(wish, saga=saga, step="request_shipment")
    await session.commit()
    asked = ShipmentRequested(
        order_id="o-1", shipment_id="shipment-o-1", carrier="air-freight", lines=goods(table=2), ship_to=HOME
    )
    assert kit.published == [asked, asked]
    assert await connection.fetchval("SELECT count(*) FROM shipping.shipments") == 1


async def test_a_label_is_made_or_refused_by_where_the_parcel_is(kit: ConsumerKit) -> None:
    await kit.command(LABEL, saga="g-1", step="create_label")
    far = CreateReturnLabel(order_id="o-2", return_id="r-2", ship_from=HOME.model_copy(update={"country": "AQ"}))
    await kit.command(far, saga="g-2", step="create_label")
    assert kit.published == [MADE, ReturnLabelRefused(order_id="o-2", return_id="r-2", reason="address_not_served")]


async def test_a_pickup_is_told_once_and_belongs_to_the_returns_flow(
    kit: ConsumerKit, session: AsyncSession, engine: AsyncEngine, connection: asyncpg.Connection
) -> None:
    asked = await kit.command(LABEL, saga="g-1", step="create_label")
    await session.commit()
    told = []
    for _ in range(2):
        async with AsyncSession(engine) as carrier, carrier.begin():
            told.append(await confirm_pickup(carrier, "r-1"))
    assert told == [True, False]
    (pickup,) = await published(connection, "carrier.pickup_confirmed")
    assert (pickup["return_id"], pickup["order_id"], pickup["tracking_code"]) == ("r-1", "o-1", "track-r-1")
    assert await flows(connection) == {asked.correlation_id}


async def test_a_cancelled_label_is_worth_nothing(kit: ConsumerKit, session: AsyncSession) -> None:
    await kit.command(LABEL, saga="g-1", step="create_label")
    await kit.command(CANCEL, saga="g-1", step="create_label", direction="undo")
    assert kit.published == [MADE, ReturnLabelCancelled(order_id="o-1", return_id="r-1")]
    with pytest.raises(NoParcel, match="cancelled"):
        await confirm_pickup(session, "r-1")


async def test_a_label_that_was_never_made_is_cancelled_all_the_same(kit: ConsumerKit, session: AsyncSession) -> None:
    await kit.command(CANCEL, saga="g-1", step="create_label", direction="undo")
    assert kit.published == [ReturnLabelCancelled(order_id="o-1", return_id="r-1")]
    with pytest.raises(NoParcel, match="no label"):
        await confirm_pickup(session, "r-1")


async def test_the_label_of_a_parcel_that_is_on_its_way_is_not_cancelled(
    kit: ConsumerKit, session: AsyncSession, connection: asyncpg.Connection
) -> None:
    await kit.command(LABEL, saga="g-1", step="create_label")
    await confirm_pickup(session, "r-1")
    await kit.command(CANCEL, saga="g-1", step="create_label", direction="undo")
    (dead,) = kit.dead
    assert "r-1 has been picked up" in str(dead)
    assert ReturnLabelCancelled(order_id="o-1", return_id="r-1") not in kit.published
    await session.commit()
    assert await connection.fetchval("SELECT state FROM shipping.labels") == "PICKED_UP"


async def test_what_is_not_accepted_goes_back_once(
    kit: ConsumerKit, session: AsyncSession, connection: asyncpg.Connection
) -> None:
    wish = ShipBack(order_id="o-1", return_id="r-1", lines=goods(table=1), ship_to=HOME)
    for saga in ("g-1", "g-2"):
        await kit.command(wish, saga=saga, step="ship_back")
    await session.commit()
    back = ReturnShippedBack(order_id="o-1", return_id="r-1", shipment_id="shipment-back-r-1")
    assert kit.published == [back, back]
    assert await connection.fetchval("SELECT count(*) FROM shipping.parcels_back") == 1
