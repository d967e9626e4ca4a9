"""The returns service's front door: ask for a return, see how it goes."""

from http import HTTPStatus
from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy.ext.asyncio import AsyncSession

from schemas.parts import Address, OrderId, StockLine
from schemas.returns import DamagePolicy, RejectPolicy
from services.front_door import front_door
from services.returns import requests
from services.returns.requests import NotGranted
from services.settings import ServiceSettings
from surefoot.events import Money
from surefoot.http.problems import Problem


class Wish(BaseModel):
    model_config = ConfigDict(extra="forbid")

    return_request_id: str | None = Field(
        None,
        min_length=1,
        max_length=200,
        description="The caller's own id of this wish, among those for the order. Said again, it is answered with the "
        "same return.",
    )
    order_id: OrderId
    lines: tuple[StockLine, ...] = Field(min_length=1, max_length=200)
    ship_from: Address
    when_damaged: DamagePolicy = "refund_half"
    when_rejected: RejectPolicy = "ship_back"


class Requested(BaseModel):
    return_id: str
    order_id: str
    state: str
    amount: Money


STATUS_OF = {
    "unknown_order": HTTPStatus.NOT_FOUND,
    "not_confirmed": HTTPStatus.CONFLICT,
    "too_many": HTTPStatus.CONFLICT,
    "already_requested": HTTPStatus.CONFLICT,
    "request_reused": HTTPStatus.CONFLICT,
}


def app(settings: ServiceSettings) -> FastAPI:
    door, engine = front_door("returns", "Returns", settings)

    @door.post("/returns", status_code=HTTPStatus.ACCEPTED)
    async def request_return(wish: Wish) -> Requested:
        """Two clicks, one return: with the same return_request_id they get the same answer; without one the second is
        refused while the first return is open."""
        async with AsyncSession(engine) as session, session.begin():
            answer = await requests.request_return(
                session,
                order_id=wish.order_id,
                lines=wish.lines,
                ship_from=wish.ship_from,
                return_request_id=wish.return_request_id,
                when_damaged=wish.when_damaged,
                when_rejected=wish.when_rejected,
            )
        if isinstance(answer, NotGranted):
            raise Problem(STATUS_OF[answer.reason], answer.reason, answer.sentence)
        return Requested(return_id=answer.return_id, order_id=answer.order_id, state=answer.state, amount=answer.amount)

    @door.get("/returns/{return_id}")
    async def show_return(return_id: str) -> dict[str, Any]:
        async with engine.connect() as connection:
            row = await requests.shown(connection, return_id)
        if row is None:
            raise Problem(HTTPStatus.NOT_FOUND, "unknown", f"There is no return {return_id}.")
        return dict(row)

    return door
