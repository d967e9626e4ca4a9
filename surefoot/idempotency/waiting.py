"""Waiting for somebody else's answer without holding a connection.

In one process only one request at a time asks the database for a key: the first of them leads, works or looks again
every now and then, and the others follow it. However many wait, one connection is used, and that one for a moment.
"""

import asyncio
import random
from dataclasses import dataclass

from surefoot.idempotency import metrics
from surefoot.idempotency.route import Route
from surefoot.idempotency.settings import IdempotencySettings
from surefoot.idempotency.store import Begun, Store
from surefoot.idempotency.values import Asked, Found, InFlight

FIRST_REST_S = 0.05
LONGEST_REST_S = 0.4


class Flight:
    """A request that a request of this process leads."""

    __slots__ = ("_flights", "_key", "_landed", "found")

    def __init__(self, flights: "dict[tuple[bytes, bytes], Flight]", key: tuple[bytes, bytes]) -> None:
        self._flights = flights
        self._key = key
        self._landed = asyncio.Event()
        self.found: Found | None = None

    def land(self, found: Found | None = None) -> None:
        """Let the followers go on: with what was found, or one of them leads and finds out."""
        if self._flights.get(self._key) is self:
            del self._flights[self._key]
        self.found = found
        self._landed.set()

    async def followed(self, until: float) -> bool:
        """Wait for its landing; False if it takes too long."""
        try:
            async with asyncio.timeout_at(until):
                await self._landed.wait()
        except TimeoutError:
            return False
        return True


@dataclass(frozen=True, slots=True)
class Led:
    """The claim is ours."""

    begun: Begun
    flight: Flight


class Flights:
    """What is asked for in this process now."""

    def __init__(self, store: Store, settings: IdempotencySettings) -> None:
        self._store = store
        self._wait_s = settings.wait_in_flight.total_seconds()
        self._flights: dict[tuple[bytes, bytes], Flight] = {}

    def lead(self, asked: Asked) -> Flight:
        """For a claim that is held already."""
        key = (asked.key_hash, asked.fingerprint)
        flight = Flight(self._flights, key)
        self._flights.setdefault(key, flight)
        return flight

    async def enter(self, asked: Asked, route: Route) -> Led | Found:
        """Claim it, or find out what became of it; if it is in flight, wait for that as long as the settings say."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        until = began + self._wait_s
        while (flight := self._flights.get((asked.key_hash, asked.fingerprint))) is not None:
            landed = await flight.followed(until)
            metrics.WAITED.observe(loop.time() - began)
            if not landed:
                return InFlight(0)
            if flight.found is not None:
                return flight.found
        flight = self.lead(asked)
        try:
            begun = await self._begin(asked, route, until)
        except BaseException:
            flight.land()
            raise
        if isinstance(begun, Begun):
            return Led(begun, flight)
        flight.land(None if isinstance(begun, InFlight) else begun)
        return begun

    async def _begin(self, asked: Asked, route: Route, until: float) -> Begun | Found:
        found = await self._store.begin(asked, route)
        if not isinstance(found, InFlight):
            return found
        loop = asyncio.get_running_loop()
        began, rest_s = loop.time(), FIRST_REST_S
        while isinstance(found, InFlight) and (left_s := until - loop.time()) > 0:
            await asyncio.sleep(min(left_s, rest_s * random.uniform(0.5, 1)))
            rest_s = min(2 * rest_s, LONGEST_REST_S)
            looked = await self._store.look(asked)
            found = await self._store.begin(asked, route) if looked is None else looked
        metrics.WAITED.observe(loop.time() - began)
        return found
