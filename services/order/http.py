"""The order service's front door: the order that a checkout session has led to, and how it stands."""

from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Response
from pydantic import BaseModel, ConfigDict, Field

from services.front_door import front_door
from services.order import orders
from services.settings import ServiceSettings
from surefoot.http.problems import Problem


class Wish(BaseModel):
    model_config = ConfigDict(extra="forbid")

    checkout_session_id: str = Field(min_length=1, max_length=200)


def app(settings: ServiceSettings) -> FastAPI:
    door, engine = front_door("order", "Orders", settings)

    @door.post("/orders")
    async def order_of_session(wish: Wish, response: Response) -> dict[str, Any]:
        """Ask as often as you like: a session leads to one order. It is made by whoever drives it, not by asking."""
        async with engine.connect() as connection:
            row = await orders.order_of_session(connection, wish.checkout_session_id)
        if row is None:
            response.status_code = HTTPStatus.ACCEPTED
            response.headers["Retry-After"] = "1"
            return {"checkout_session_id": wish.checkout_session_id, "status": "NOT_THERE_YET"}
        return dict(row)

    @door.get("/orders/{order_id}")
    async def show_order(order_id: str) -> dict[str, Any]:
        async with engine.connect() as connection:
            row = await orders.order_by_id(connection, order_id)
        if row is None:
            sentence = f"There is no order {order_id}. If it was placed just now, ask again."
            raise Problem(HTTPStatus.NOT_FOUND, "unknown", sentence)
        return dict(row)

    return door
