"""Checkout's front door: open a session, look at it, place its order."""

from datetime import timedelta
from http import HTTPStatus
from typing import Any, Literal, assert_never

from fastapi import FastAPI
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy.ext.asyncio import AsyncSession

from schemas.parts import Address, Line
from services.checkout import sessions
from services.checkout.sessions import NotPlaced, Placed, WishRefused
from services.front_door import front_door
from services.settings import ServiceSettings
from surefoot.events import Money
from surefoot.http.problems import Problem


class Wish(BaseModel):
    model_config = ConfigDict(extra="forbid")

    customer_id: str = Field(min_length=1, max_length=200)
    lines: tuple[Line, ...] = Field(min_length=1, max_length=200)
    ship_to: Address
    mode: Literal["orchestrated", "choreographed"] = "orchestrated"


class OpenedSession(BaseModel):
    session_id: str
    order_id: str
    state: str
    total: Money


class PlacedOrder(BaseModel):
    session_id: str
    order_id: str


HOLD = timedelta(minutes=15)
"""How long goods are kept for a session."""
STATUS_OF = {
    "unknown": HTTPStatus.NOT_FOUND,
    "not_held_yet": HTTPStatus.CONFLICT,
    "rejected": HTTPStatus.CONFLICT,
    "expired": HTTPStatus.CONFLICT,
}


def app(settings: ServiceSettings) -> FastAPI:
    door, engine = front_door("checkout", "Checkout", settings)

    @door.post("/checkout/sessions", status_code=HTTPStatus.CREATED)
    async def open_session(wish: Wish) -> OpenedSession:
        try:
            async with AsyncSession(engine) as session, session.begin():
                opened = await sessions.open_session(
                    session,
                    customer_id=wish.customer_id,
                    lines=wish.lines,
                    ship_to=wish.ship_to,
                    mode=wish.mode,
                    hold=HOLD,
                )
        except WishRefused as error:
            raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "does_not_fit", str(error)) from None
        return OpenedSession(
            session_id=opened.session_id, order_id=opened.order_id, state="HOLDING", total=opened.total
        )

    @door.get("/checkout/sessions/{session_id}")
    async def show_session(session_id: str) -> dict[str, Any]:
        async with engine.connect() as connection:
            row = await sessions.shown(connection, session_id)
        if row is None:
            raise Problem(HTTPStatus.NOT_FOUND, "unknown", f"There is no checkout session {session_id}.")
        return dict(row)

    @door.post("/checkout/sessions/{session_id}/place", status_code=HTTPStatus.ACCEPTED)
    async def place(session_id: str) -> PlacedOrder:
        async with AsyncSession(engine) as session, session.begin():
            answer = await sessions.place(session, session_id)
        match answer:
            case Placed(order_id):
                return PlacedOrder(session_id=session_id, order_id=order_id)
            case NotPlaced(reason, sentence):
                wait_s = 1 if reason == "not_held_yet" else None
                raise Problem(STATUS_OF[reason], reason, sentence, retry_after_s=wait_s)
            case _:
                assert_never(answer)

    return door
