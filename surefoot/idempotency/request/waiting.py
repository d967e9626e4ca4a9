"""Claiming a key, or waiting for the answer of another request that has claimed it, without holding a connection.

In one process only one request at a time asks the database for a key: the first of them leads, and the others follow
it. However many wait, one poller looks for all of them, and holds a connection while it looks.
"""

import asyncio
import random
import time
from dataclasses import dataclass

import structlog

from surefoot.errors import words_of
from surefoot.idempotency import metrics
from surefoot.idempotency.settings import IdempotencySettings, Route
from surefoot.idempotency.store import Begun, Store
from surefoot.idempotency.values import Asked, Found, InFlight, StoreAway

log = structlog.get_logger("surefoot.idempotency")
REST_S, LONGEST_REST_S = 0.05, 0.4
"""How often it is looked whether another process has answered."""
OWN_REST_S, OWN_LONGEST_REST_S = 1.0, 2.0
"""And if it is worked on in this process, which says when it is done: for when that hangs, and has lost its claim."""
_Key = tuple[bytes, bytes]


class Flight:
    """What is asked for under a key, by one request of this process or by many."""

    __slots__ = ("_landed", "asked", "followers", "found", "is_asked", "is_elsewhere", "poller")

    def __init__(self, asked: Asked) -> None:
        self.asked = asked
        self.found: Found | None = None
        """What became of it; None: whoever is first finds out."""
        self.is_asked = False
        """Whether the database is being asked to claim it."""
        self.is_elsewhere = False
        """Whether another process works on it: nobody in this one will say when it is done."""
        self.followers = 0
        self.poller: asyncio.Task[None] | None = None
        self._landed = asyncio.Event()

    @property
    def has_landed(self) -> bool:
        return self._landed.is_set()

    def land(self, found: Found | None = None) -> None:
        """Let the followers go on. Only the first time counts."""
        if not self._landed.is_set():
            self.found = found
            self._landed.set()

    async def landed(self, until: float) -> bool:
        """Wait for it; False if it takes too long."""
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
        self._flights: dict[_Key, Flight] = {}

    async def enter(self, asked: Asked, route: Route) -> Led | Found:
        """Claim it, or find out what became of it; if it is in flight, wait for that as long as the settings say."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        until = began + self._wait_s
        while True:
            flight = self._flight(asked)
            if flight is None:
                flight = self._take_off(asked)
                begun = await self._begin(flight, route)
                if isinstance(begun, Begun):
                    return Led(begun, flight)
                if not isinstance(begun, InFlight):
                    return begun
                flight.is_elsewhere, flight.poller = True, None
            has_landed = await self._follow(flight, until)
            if flight.found is not None or not has_landed:
                metrics.WAITED.observe(loop.time() - began)
                return flight.found or InFlight(0)

    def lead(self, asked: Asked) -> Flight:
        """For a claim that is held already, whatever else is known of it here."""
        return self._take_off(asked)

    def _flight(self, asked: Asked) -> Flight | None:
        """The one to follow. One that has landed is over, and gone as soon as somebody notices."""
        flight = self._flights.get(_key(asked))
        if flight is not None and flight.has_landed:
            del self._flights[_key(asked)]
            return None
        return flight

    def _take_off(self, asked: Asked) -> Flight:
        flight = self._flights[_key(asked)] = Flight(asked)
        return flight

    def land(self, flight: Flight, found: Found | None = None) -> None:
        flight.land(found)
        if self._flights.get(_key(flight.asked)) is flight:
            del self._flights[_key(flight.asked)]

    async def _begin(self, flight: Flight, route: Route) -> Begun | Found:
        flight.is_asked = True
        try:
            begun = await self._store.begin(flight.asked, route)
        except BaseException:
            self.land(flight)
            raise
        finally:
            flight.is_asked = False
        if not isinstance(begun, Begun | InFlight):
            self.land(flight, begun)
        return begun

    async def _follow(self, flight: Flight, until: float) -> bool:
        flight.followers += 1
        if flight.poller is None:
            flight.poller = asyncio.create_task(self._poll(flight))
        try:
            return await flight.landed(until)
        finally:
            flight.followers -= 1
            if flight.followers == 0 and flight.is_elsewhere:
                self.land(flight)

    async def _poll(self, flight: Flight) -> None:
        """Look for all who follow, until it has landed, or nobody follows, or another poller does it."""
        loop = asyncio.get_running_loop()
        rest_s, longest_s = (REST_S, LONGEST_REST_S) if flight.is_elsewhere else (OWN_REST_S, OWN_LONGEST_REST_S)
        while not await flight.landed(loop.time() + rest_s * random.uniform(0.5, 1)):
            if flight.poller is not asyncio.current_task():
                return
            if flight.followers == 0:
                flight.poller = None
                return
            if flight.is_asked:
                continue
            rest_s = min(2 * rest_s, longest_s)
            found = await self._look(flight)
            if not isinstance(found, InFlight):
                self.land(flight, found)

    async def _look(self, flight: Flight) -> Found | None:
        try:
            return await self._store.look(flight.asked)
        except StoreAway:
            return InFlight(0)
        except Exception as error:  # whoever asks next gets it
            log.warning("looking for an answer failed", error=words_of(error))
            return None


def _key(asked: Asked) -> _Key:
    return asked.key_hash, asked.fingerprint


class Absence:
    """Says once that the store does not answer, and once that it does again, however many requests meet it."""

    def __init__(self) -> None:
        self._requests = 0
        self._since = 0.0

    def met(self, error: Exception) -> None:
        if self._requests == 0:
            self._since = time.monotonic()
            metrics.STORE_OUTAGES.inc()
            log.warning(
                "requests are refused, or done without protection where a route allows it", error=words_of(error)
            )
        self._requests += 1

    def over(self) -> None:
        if self._requests:
            lasted_s = round(time.monotonic() - self._since, 1)
            log.info("the store of idempotency keys answers again", lasted_s=lasted_s, requests=self._requests)
            self._requests = 0
