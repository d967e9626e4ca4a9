"""Followers wait without a connection: one leads, one poller looks for all of them, and no request waits for ever."""

import asyncio
from typing import Any, cast

import pytest

from surefoot.idempotency.request.waiting import Flights, Led
from surefoot.idempotency.settings import IdempotencySettings, Route
from surefoot.idempotency.store import Begun, Store
from surefoot.idempotency.values import Answer, Answered, Asked, Found, InFlight, StoreAway, Unknown

ASKED = Asked("shop", b"key", "POST /", "local", b"print", 1)
OTHER = Asked("shop", b"key", "POST /", "local", b"other print", 1)
ANSWERED = Answered(Answer(201, (), b"body"))
ROUTE = Route()


class Claimed(Begun):
    """A claim, as far as the waiting looks at it."""

    def __init__(self) -> None: ...


class Asking:
    """A store that gives what it is told to give, and counts."""

    def __init__(self, *begins: Any) -> None:
        self.begins = list(begins)
        self.looks: list[Any] = []
        self.begun = 0
        self.looked = 0

    async def begin(self, asked: Asked, route: Route) -> Begun | Found:
        self.begun += 1
        await asyncio.sleep(0)
        found = self.begins.pop(0)
        if isinstance(found, Exception):
            raise found
        return cast(Begun, found)

    async def look(self, asked: Asked) -> Found | None:
        self.looked += 1
        await asyncio.sleep(0)
        return cast(Found, self.looks.pop(0)) if self.looks else InFlight(1)


def flights(store: Asking, wait: str = "PT5S") -> Flights:
    return Flights(cast(Store, store), IdempotencySettings(wait_in_flight=wait))


async def test_of_many_one_asks_and_all_get_what_it_finds() -> None:
    store = Asking(ANSWERED)
    there = flights(store)
    found = await asyncio.gather(*(there.enter(ASKED, ROUTE) for _ in range(50)))
    assert found == [ANSWERED] * 50
    assert (store.begun, store.looked) == (1, 0)
    assert there._flights == {}


async def test_followers_get_the_answer_of_the_leader() -> None:
    store = Asking(Claimed())
    there = flights(store)
    led = await there.enter(ASKED, ROUTE)
    assert isinstance(led, Led)
    followers = [asyncio.create_task(there.enter(ASKED, ROUTE)) for _ in range(50)]
    await asyncio.sleep(0.01)
    there.land(led.flight, ANSWERED)
    assert await asyncio.gather(*followers) == [ANSWERED] * 50
    assert (store.begun, store.looked) == (1, 0)


async def test_if_nothing_came_of_it_one_of_the_followers_leads() -> None:
    store = Asking(Claimed(), Claimed())
    there = flights(store)
    led = await there.enter(ASKED, ROUTE)
    assert isinstance(led, Led)
    followers = [asyncio.create_task(there.enter(ASKED, ROUTE)) for _ in range(3)]
    await asyncio.sleep(0.01)
    there.land(led.flight)
    done, waiting = await asyncio.wait(followers, return_when=asyncio.FIRST_COMPLETED)
    (second,) = [task.result() for task in done]
    assert isinstance(second, Led)
    there.land(second.flight, Unknown("ch_1", 2))
    assert [await task for task in waiting] == [Unknown("ch_1", 2)] * 2
    assert store.begun == 2


async def test_another_request_under_the_key_does_not_follow() -> None:
    store = Asking(Claimed(), ANSWERED)
    there = flights(store)
    led = await there.enter(ASKED, ROUTE)
    assert isinstance(led, Led)
    assert await there.enter(OTHER, ROUTE) == ANSWERED


async def test_one_poller_looks_for_all_who_wait_for_another_process() -> None:
    store = Asking(InFlight(1))
    store.looks = [InFlight(1), ANSWERED]
    there = flights(store)
    found = await asyncio.gather(*(there.enter(ASKED, ROUTE) for _ in range(50)))
    assert found == [ANSWERED] * 50
    assert (store.begun, store.looked) == (1, 2)
    assert there._flights == {}


async def test_what_another_process_gave_up_is_claimed_by_one() -> None:
    store = Asking(InFlight(1), Claimed())
    store.looks = [None]
    there = flights(store)
    entering = [asyncio.create_task(there.enter(ASKED, ROUTE)) for _ in range(5)]
    done, waiting = await asyncio.wait(entering, return_when=asyncio.FIRST_COMPLETED)
    (led,) = [task.result() for task in done]
    assert isinstance(led, Led)
    there.land(led.flight, ANSWERED)
    assert [await task for task in waiting] == [ANSWERED] * 4
    assert store.begun == 2


async def test_no_request_waits_for_longer_than_the_settings_say() -> None:
    store = Asking(InFlight(1))
    there = flights(store, wait="PT0.05S")
    found = await asyncio.gather(*(there.enter(ASKED, ROUTE) for _ in range(5)))
    assert all(isinstance(one, InFlight) for one in found)
    assert there._flights == {}, "who leaves last leaves nothing behind"


async def test_who_follows_one_that_hangs_finds_what_others_have_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("surefoot.idempotency.request.waiting.OWN_REST_S", 0.01)
    store = Asking(Claimed())
    store.looks = [InFlight(1), ANSWERED]
    there = flights(store)
    assert isinstance(await there.enter(ASKED, ROUTE), Led)
    assert await there.enter(ASKED, ROUTE) == ANSWERED


async def test_a_store_that_is_away_is_told_to_the_leader_and_the_next_one_asks_again() -> None:
    store = Asking(StoreAway(), ANSWERED)
    there = flights(store)
    first, second = await asyncio.gather(there.enter(ASKED, ROUTE), there.enter(ASKED, ROUTE), return_exceptions=True)
    assert isinstance(first, StoreAway)
    assert second == ANSWERED


async def test_a_leader_that_is_cancelled_leaves_the_lead_to_others() -> None:
    store = Asking(ANSWERED, ANSWERED)
    there = flights(store)
    leading = asyncio.create_task(there.enter(ASKED, ROUTE))
    following = asyncio.create_task(there.enter(ASKED, ROUTE))
    await asyncio.sleep(0)
    leading.cancel()
    assert await following == ANSWERED
