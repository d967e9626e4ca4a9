"""Commands of a saga that reserves stock and gives it back; each saga is about the order of its name."""

from surefoot.events import Event, new_event
from surefoot.events.event import Command, Direction
from tests.support.shop_types import ReleaseStock, ReserveStock


def reserve(saga_id: str = "s1", number: int = 0, attempt: int = 1) -> Event[ReserveStock]:
    return new_event(ReserveStock(order_id=saga_id, number=number), extensions=step(saga_id, "do", attempt))


def release(saga_id: str = "s1", number: int = 0) -> Event[ReleaseStock]:
    return new_event(ReleaseStock(order_id=saga_id, number=number), extensions=step(saga_id, "undo"))


def step(saga_id: str, direction: Direction, attempt: int = 1) -> dict[str, str]:
    return dict(Command(saga_id, "reserve_stock", direction, attempt).extensions())
