"""A click that comes in the very moment in which the warehouse answers."""

from typing import Any

import httpx
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

from consumers.checkout import checkout
from schemas.warehouse import StockHeld
from services.checkout.sessions import NotPlaced, Placed, place
from tests.integration.services.test_front_doors import learn, opened, shop_front
from tests.support.services.goods import goods

__all__ = ["shop_front"]
pytestmark = pytest.mark.slow


async def test_a_session_that_is_held_while_its_buyer_clicks_is_not_called_expired(
    shop_front: httpx.AsyncClient, engine: AsyncEngine
) -> None:
    session_id = await opened(shop_front)
    told = {"checkout_session_id": session_id, "lines": goods(table=2), "expires_at": "2099-01-01T00:00:00Z"}

    class Overtaken(AsyncSession):
        """The warehouse's answer is written down right after this session's first statement."""

        calls = 0

        async def execute(self, *arguments: Any, **options: Any) -> Any:
            result = await super().execute(*arguments, **options)
            self.calls += 1
            if self.calls == 1:
                await learn(engine, checkout, StockHeld.model_validate(told))
            return result

    async with Overtaken(engine) as session, session.begin():
        answer = await place(session, session_id)
    assert isinstance(answer, NotPlaced)
    assert answer.reason == "not_held_yet"
    async with AsyncSession(engine) as again, again.begin():
        assert isinstance(await place(again, session_id), Placed)
