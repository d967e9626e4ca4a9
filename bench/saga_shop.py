"""The shop of the saga bench: a 4-step order saga, the services it commands, and their tables.

The services' handlers write what the floor writes (`bench.saga_floor`), with the very same statements.
"""

from datetime import timedelta
from typing import Any

from sqlalchemy import text

from orchestrator.sagas.order_placement import capture, confirm, release, reserve, reverse, ship
from schemas.order import ConfirmOrder, OrderConfirmed, PlacementRequested
from schemas.parts import Address, Line, StockLine
from schemas.payment import CapturePayment, PaymentCaptured, PaymentFailed, PaymentVoided, ReversePayment
from schemas.shipping import RequestShipment, ShipmentRequested
from schemas.warehouse import ReleaseStock, ReserveStock, StockRejected, StockReleased, StockReserved
from surefoot.consumer import Consumer, Transaction
from surefoot.events import Event, Money
from surefoot.saga import Saga

ARTICLES = 1000
STOCK = 1_000_000
DECLINED_OF_TEN = 1
TABLES = """
    CREATE TABLE bench_stock (sku text PRIMARY KEY, free int NOT NULL CHECK (free >= 0)) WITH (fillfactor = 50);
    CREATE TABLE bench_reservations (order_id text PRIMARY KEY, sku text NOT NULL, state text NOT NULL);
    CREATE TABLE bench_payments (order_id text PRIMARY KEY, amount bigint NOT NULL, state text NOT NULL);
    CREATE TABLE bench_orders (order_id text PRIMARY KEY, status text NOT NULL) WITH (fillfactor = 80);
    CREATE TABLE bench_shipments (order_id text PRIMARY KEY, carrier text NOT NULL);
"""
FILL = f"INSERT INTO bench_stock SELECT 'sku-' || n, {STOCK} FROM generate_series(0, {ARTICLES - 1}) n"

# $1: the order; the names of the parameters are SQLAlchemy's, for the floor they are numbered.
RESERVE = """
    WITH taken AS (UPDATE bench_stock SET free = free - 1 WHERE sku = :sku AND free >= 1 RETURNING sku)
    INSERT INTO bench_reservations SELECT :order_id, sku, 'RESERVED' FROM taken"""
RELEASE = """
    WITH gone AS (UPDATE bench_reservations SET state = 'RELEASED'
                  WHERE order_id = :order_id AND state = 'RESERVED' RETURNING sku)
    UPDATE bench_stock s SET free = free + 1 FROM gone WHERE s.sku = gone.sku"""
PAY = "INSERT INTO bench_payments VALUES (:order_id, 1999, :state)"
SET_ORDER = "UPDATE bench_orders SET status = :status WHERE order_id = :order_id"
SHIP = "INSERT INTO bench_shipments VALUES (:order_id, 'post')"

shop_saga = Saga("bench_order", version=1, starts_on=PlacementRequested)
shop_saga.step(
    "reserve_stock",
    do=reserve,
    done_on=StockReserved,
    refused_on=StockRejected,
    undo=release,
    undone_on=StockReleased,
    timeout=timedelta(minutes=10),
)
shop_saga.step(
    "capture_payment",
    do=capture,
    done_on=PaymentCaptured,
    refused_on=PaymentFailed,
    undo=reverse,
    undone_on=PaymentVoided,
    timeout=timedelta(minutes=10),
)
shop_saga.pivot("confirm_order", do=confirm, done_on=OrderConfirmed, timeout=timedelta(minutes=10))
shop_saga.step("request_shipment", do=ship, done_on=ShipmentRequested, timeout=timedelta(minutes=10))


def is_declined(order_id: str) -> bool:
    return int(order_id.rpartition("-")[2]) % 10 < DECLINED_OF_TEN


def sku_of(order_id: str) -> str:
    return f"sku-{int(order_id.rpartition('-')[2]) % ARTICLES}"


def placement(order_id: str) -> PlacementRequested:
    price = Money.minor(1999, "EUR")
    return PlacementRequested(
        order_id=order_id,
        customer_id="customer-0123456789",
        checkout_session_id=f"session-{order_id}",
        mode="orchestrated",
        lines=(Line(sku=sku_of(order_id), quantity=1, unit_price=price),),
        total=price,
        ship_to=Address(name="A. Buyer", street="1 High Street", postal_code="12345", city="Town", country="DE"),
    )


warehouse, payment, order, shipping = (Consumer(name) for name in ("warehouse", "payment", "order", "shipping"))
CONSUMERS = (warehouse, payment, order, shipping)


texts = {statement: text(statement) for statement in (RESERVE, RELEASE, PAY, SET_ORDER, SHIP)}


async def write(tx: Transaction, statement: str, **values: Any) -> None:
    await tx.session.execute(texts[statement], values)


@warehouse.command(ReserveStock)
async def on_reserve(event: Event[ReserveStock], tx: Transaction) -> StockReserved:
    order_id, lines = event.data.order_id, event.data.lines
    await write(tx, RESERVE, order_id=order_id, sku=lines[0].sku)
    return StockReserved(order_id=order_id, reservation_id=order_id, lines=lines)


@warehouse.command(ReleaseStock)
async def on_release(event: Event[ReleaseStock], tx: Transaction) -> StockReleased:
    order_id = event.data.order_id
    await write(tx, RELEASE, order_id=order_id)
    lines = (StockLine(sku=sku_of(order_id), quantity=1),)
    return StockReleased(order_id=order_id, reservation_id=order_id, lines=lines, reason="compensation")


@payment.command(CapturePayment)
async def on_capture(event: Event[CapturePayment], tx: Transaction) -> PaymentCaptured | PaymentFailed:
    order_id, amount = event.data.order_id, event.data.amount
    declined = is_declined(order_id)
    await write(tx, PAY, order_id=order_id, state="DECLINED" if declined else "CAPTURED")
    if declined:
        return PaymentFailed(order_id=order_id, payment_id=order_id, amount=amount, reason="declined")
    return PaymentCaptured(
        order_id=order_id, payment_id=order_id, gateway="bench", gateway_txn_id=order_id, amount=amount
    )


@payment.command(ReversePayment)
async def on_reverse(event: Event[ReversePayment], tx: Transaction) -> PaymentVoided:
    return PaymentVoided(order_id=event.data.order_id, payment_id=event.data.order_id)


@order.command(ConfirmOrder)
async def on_confirm(event: Event[ConfirmOrder], tx: Transaction) -> OrderConfirmed:
    await write(tx, SET_ORDER, order_id=event.data.order_id, status="PROCESSING")
    return OrderConfirmed(order_id=event.data.order_id, mode="orchestrated")


@shipping.command(RequestShipment)
async def on_ship(event: Event[RequestShipment], tx: Transaction) -> ShipmentRequested:
    await write(tx, SHIP, order_id=event.data.order_id)
    return ShipmentRequested(
        order_id=event.data.order_id,
        shipment_id=event.data.order_id,
        carrier="post",
        lines=event.data.lines,
        ship_to=event.data.ship_to,
    )
