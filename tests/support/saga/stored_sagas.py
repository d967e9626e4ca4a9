"""Sagas in a database, brought where a test wants them by the orchestrator's own decisions, without a log or relay."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import asyncpg

from orchestrator.sagas import sagas as platform_sagas
from schemas.order import OrderCancelled, OrderPendingPayment, PlacementRequested
from schemas.parts import Address, Line, StockLine
from schemas.payment import PaymentCaptured
from schemas.returns import ReturnRequested
from schemas.shipping import PickupConfirmed, ReturnLabelCreated
from schemas.warehouse import StockReserved
from surefoot import outbox
from surefoot.consumer.contracts import CommandFailed
from surefoot.events import Event, EventData, Money, new_event
from surefoot.orchestrator.deciding import Deciding, carry_out
from surefoot.orchestrator.operators import operate
from surefoot.orchestrator.registry import Registry
from surefoot.orchestrator.store import Store
from surefoot.orchestrator.work import Work
from surefoot.saga import Saga
from surefoot.saga.stimulus import Fired, Operated
from tests.support.command_line import surefoot
from tests.support.processes import Done

HOME = Address(name="Ada", street="Long Road 1", postal_code="10115", city="Berlin", country="DE")
PRICE = Money.minor(1200, "EUR")
EXAMPLES = tuple(f"0192f0c1-7a3e-7c41-9d0a-6f1f0d6f3b1{n}" for n in (1, 2, 3))
"""Of the documents: one that is stuck, one that runs, one that is paused."""


@dataclass
class Ground:
    url: str
    connection: asyncpg.Connection
    store: Store
    deciding: Deciding

    async def take(self, *events: Event[Any]) -> None:
        """As the orchestrator's consumer does."""
        async with outbox.transaction(self.connection) as tx:
            await self.deciding.decide(self.connection, events, tx.add)

    async def begin(self, data: EventData) -> str:
        event = new_event(data)
        await self.take(event)
        found = "SELECT saga_id::text FROM surefoot.saga_instances WHERE start_event_id = $1"
        return str(await self.connection.fetchval(found, event.id))

    async def reply(self, saga_id: str, data: EventData) -> Event[EventData]:
        """To the command that was sent last."""
        event = replace(new_event(data), causation_id=await self.last_command(saga_id))
        await self.take(event)
        return event

    async def fail(self, saga_id: str, error: str) -> None:
        """The command that was sent last is dead."""
        row = await self.connection.fetchrow(
            "SELECT step, direction, attempt FROM surefoot.saga_history WHERE saga_id = $1 AND kind = 'SENT' "
            "ORDER BY id DESC LIMIT 1",
            saga_id,
        )
        failed = CommandFailed(
            saga_id=saga_id,
            step=row[0],
            direction=row[1],
            attempt=row[2],
            consumer="somebody",
            reason="permanent",
            error=error,
        )
        await self.take(new_event(failed))

    async def fire(self, saga_id: str) -> None:
        """The clock has run out, and it counts."""
        async with outbox.transaction(self.connection) as tx:
            sagas = await self.store.lock(self.connection, [saga_id])
            timer = sagas[saga_id].instance.timer
            assert timer is not None
            work = Work(sagas)
            work.decide(sagas[saga_id], Fired(timer.step, timer.direction, timer.attempt, timer.kind), None)
            await carry_out(self.store, self.connection, work, tx.add)

    async def last_command(self, saga_id: str) -> str:
        sent = (
            "SELECT event_id FROM surefoot.saga_history WHERE saga_id = $1 AND kind = 'SENT' ORDER BY id DESC LIMIT 1"
        )
        return str(await self.connection.fetchval(sent, saga_id))

    async def status(self, saga_id: str) -> tuple[str, str | None, str | None]:
        row = await self.connection.fetchrow(
            "SELECT status::text, current_step, current_direction FROM surefoot.saga_instances WHERE saga_id = $1",
            saga_id,
        )
        return row[0], row[1], row[2]

    async def history(self, saga_id: str) -> list[tuple[str, str | None, str | None]]:
        rows = await self.connection.fetch(
            "SELECT kind, step, sentence FROM surefoot.saga_history WHERE saga_id = $1 ORDER BY id", saga_id
        )
        return [(row[0], row[1], row[2]) for row in rows]

    async def published(self) -> list[str]:
        rows = await self.connection.fetch("SELECT event_type FROM surefoot.outbox_events ORDER BY position")
        return [row[0] for row in rows]

    async def timer(self, saga_id: str) -> tuple[str, str, int, str] | None:
        row = await self.connection.fetchrow(
            "SELECT step, direction, attempt, kind FROM surefoot.saga_timers WHERE saga_id = $1", saga_id
        )
        return None if row is None else (row[0], row[1], row[2], row[3])

    # -- an order, step by step ---------------------------------------------------------------------------------------

    async def begin_order(self, order_id: str) -> str:
        """It waits for create_order."""
        return await self.begin(placement(order_id))

    async def order_with_stock(self, order_id: str) -> str:
        """It waits for capture_payment."""
        saga_id = await self.begin_order(order_id)
        await self.reply(saga_id, pending(order_id))
        await self.reply(saga_id, reserved(order_id))
        return saga_id

    async def order_past_pivot(self, order_id: str) -> str:
        """It waits for confirm_order."""
        saga_id = await self.order_with_stock(order_id)
        await self.reply(saga_id, captured(order_id))
        return saga_id

    async def stuck_order(self, order_id: str) -> str:
        """Stuck at confirm_order."""
        saga_id = await self.order_past_pivot(order_id)
        await self.fail(saga_id, "The order book is closed.")
        return saga_id

    async def undone_order(self, order_id: str) -> str:
        """Its first command died; that was undone."""
        saga_id = await self.begin_order(order_id)
        await self.fail(saga_id, "The order book is closed.")
        await self.reply(saga_id, cancelled(order_id))
        return saga_id

    async def stuck_return(self, return_id: str) -> str:
        """Stuck because nobody picked the parcel up."""
        saga_id = await self.begin(return_wish(return_id))
        label = ReturnLabelCreated(order_id="o", return_id=return_id, carrier="dhl", tracking_code="t-1")
        await self.reply(saga_id, label)
        await self.fire(saga_id)
        return saga_id


def cancelled(order_id: str) -> OrderCancelled:
    return OrderCancelled(order_id=order_id, checkout_session_id="s-1", mode="orchestrated", reason="out_of_stock")


def placement(order_id: str) -> PlacementRequested:
    return PlacementRequested(
        order_id=order_id,
        customer_id="c-1",
        checkout_session_id="s-1",
        mode="orchestrated",
        lines=(Line(sku="table", quantity=1, unit_price=PRICE),),
        total=PRICE,
        ship_to=HOME,
    )


def pending(order_id: str) -> OrderPendingPayment:
    wish = placement(order_id)
    return OrderPendingPayment(
        order_id=order_id,
        customer_id="c-1",
        checkout_session_id="s-1",
        mode="orchestrated",
        lines=wish.lines,
        total=PRICE,
    )


def reserved(order_id: str) -> StockReserved:
    return StockReserved(order_id=order_id, reservation_id="r-1", lines=(StockLine(sku="table", quantity=1),))


def captured(order_id: str) -> PaymentCaptured:
    return PaymentCaptured(order_id=order_id, payment_id="p-1", gateway="g", gateway_txn_id="x-1", amount=PRICE)


def return_wish(return_id: str) -> ReturnRequested:
    return ReturnRequested(
        return_id=return_id,
        order_id="o",
        customer_id="c-1",
        lines=(StockLine(sku="table", quantity=1),),
        amount=PRICE,
        ship_from=HOME,
    )


def pickup(return_id: str) -> PickupConfirmed:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    return PickupConfirmed(order_id="o", return_id=return_id, carrier="dhl", tracking_code="t-1", picked_up_at=at)


@asynccontextmanager
async def ground_at(url: str, sagas: Sequence[Saga] = platform_sagas) -> AsyncIterator[Ground]:
    connection = await asyncpg.connect(url)
    try:
        registry = Registry(sagas)
        store = Store(registry, "surefoot")
        yield Ground(url, connection, store, Deciding(registry, store))
    finally:
        await connection.close()


async def saga(ground: Ground, *arguments: str) -> Done:
    """Give a command, `surefoot saga …`, as a process of its own."""
    done = await surefoot("saga", *arguments, environment={"SUREFOOT_DATABASE": ground.url})
    assert "Traceback" not in done.err
    return done


async def place_examples(url: str) -> None:
    """The three sagas that the documents speak of, under the ids they have there."""
    async with ground_at(url) as ground:
        stuck = await ground.stuck_order("order-1")
        running = await ground.order_with_stock("order-2")
        paused = await ground.order_with_stock("order-3")
        await operate(ground.connection, ground.store, paused, Operated("pause", "Ada", "the bank is away"))
        for made, shown in zip((stuck, running, paused), EXAMPLES, strict=True):
            for table in ("saga_instances", "saga_history", "saga_timers"):
                await ground.connection.execute(
                    f"UPDATE surefoot.{table} SET saga_id = $2::uuid WHERE saga_id = $1::uuid", made, shown
                )
