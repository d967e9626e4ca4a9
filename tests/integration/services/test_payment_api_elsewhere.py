"""Money that was given back without us, at the provider's own desk: its webhook puts it into the books, once."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine

from services.payment.api.bookkeeping import book
from services.payment.charge_states import Outcome, take
from services.payment.payment_events import PaymentEvent, event_of
from surefoot.database.address import sqlalchemy_url
from tests.support.services.payment_api_harness import Api, api_ground
from tests.support.services.webhook_harness import event


@pytest.fixture
async def api(database_url: str, tmp_path: Path) -> AsyncIterator[Api]:
    async with api_ground(database_url, tmp_path) as api:
        yield api


@pytest.fixture
async def engine(database_url: str) -> AsyncIterator[AsyncEngine]:
    engine = create_async_engine(sqlalchemy_url(database_url))
    yield engine
    await engine.dispose()


class Desk:
    """Somebody at the provider who gives money back, and the webhook that tells of it."""

    def __init__(self, api: Api, engine: AsyncEngine, charge_id: str, txn: str) -> None:
        self._api = api
        self._engine = engine
        self._charge_id = charge_id
        self._txn = txn
        self._given = 0

    async def gives_back(self, units: int) -> None:
        self._given += 1
        amount = {"minor_units": units, "currency": "EUR"}
        asked = {"charge_id": self._txn, "refund_request_id": f"desk-{self._given}", "amount": amount}
        assert (await self._api.provider.post("/refunds", asked)).status_code == 201

    async def tells(self, total: int, event_id: str) -> Outcome:
        """All that was given back so far."""
        said = event_of(
            "provider", event("refunded", id_=event_id, txn=self._txn, charge=self._charge_id, amount=total)
        )
        assert isinstance(said, PaymentEvent)
        async with AsyncSession(self._engine) as session, session.begin():
            return await take(session, said, after=book)


@pytest.fixture
async def desk(api: Api, engine: AsyncEngine) -> Desk:
    charge_id = await api.captured(2000)
    txn = (await api.get(f"/v1/charges/{charge_id}")).json()["gateway_txn_id"]
    return Desk(api, engine, charge_id, txn)


async def only_charge(api: Api) -> str:
    return str(await api.connection.fetchval("SELECT charge_id FROM payments.charges"))


async def test_what_was_given_back_at_the_desk_leaves_the_account_once(api: Api, desk: Desk) -> None:
    await desk.gives_back(300)
    assert await desk.tells(300, "evt_1") == "applied"
    assert await desk.tells(300, "evt_2") == "duplicate"
    assert await api.balance() == 1700
    await desk.gives_back(200)
    assert await desk.tells(500, "evt_3") == "applied"
    assert await api.balance() == 1500
    await api.assert_sound()


async def test_what_was_asked_for_here_is_not_booked_again_when_its_webhook_comes(api: Api, desk: Desk) -> None:
    charge_id = await only_charge(api)
    assert (await api.refund(charge_id, 400)).status_code == 201
    assert await desk.tells(400, "evt_1") == "late"
    await desk.gives_back(100)
    assert await desk.tells(500, "evt_2") == "applied"
    assert await api.balance() == 1500
    assert (await api.refund(charge_id, 1500)).status_code == 201
    assert await api.balance() == 0
    await api.assert_sound()
