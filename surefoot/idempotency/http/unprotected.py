"""Requests that no retry is recognised of: without a key, or while the store is away and the route takes that risk.

Their handlers are the same, so what they ask for is there: values are minted, phases and a local route's transaction
commit, calls have a key. Only nothing of it is remembered.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import uuid4

from surefoot.idempotency import metrics
from surefoot.idempotency.deciding import is_undone
from surefoot.idempotency.http.middleware import Exchange
from surefoot.idempotency.request.idempotent import Answers, Idempotent, Mint
from surefoot.idempotency.request.local_work import LocalHands
from surefoot.idempotency.request.results import shape_of
from surefoot.idempotency.request.work import Layer, Response
from surefoot.idempotency.settings import Route
from surefoot.idempotency.store import Tx, Unclaimed
from surefoot.idempotency.values import Answer, Asked, PhaseMisuse, StoreAway


async def without_key(exchange: Exchange, route: Route, name: str, tenant: str) -> Idempotent:
    """For a request that brings no key where none is required."""
    layer = exchange.layer
    if route.effect == "outside":
        return Idempotent(_OutsideHands(layer, uuid4().hex), tenant=tenant, attempt=1, protected=False)
    unclaimed = await layer.store.unclaimed()
    exchange.work = _LocalWork(layer, name, unclaimed)
    return Idempotent(LocalHands(unclaimed.tx), tenant=tenant, attempt=1, protected=False)


def without_store(layer: Layer, asked: Asked, error: StoreAway) -> Idempotent:
    """For one that is done although the store is away. Retries call with the same key at least, while it is away."""
    hands = _HandsWithoutStore(layer, asked.key_hash.hex(), error)
    return Idempotent(hands, tenant=asked.tenant, attempt=1, protected=False)


class _LocalWork:
    """One transaction, without a claim in it."""

    def __init__(self, layer: Layer, name: str, unclaimed: Unclaimed) -> None:
        self._layer = layer
        self._name = name
        self._unclaimed = unclaimed

    async def answered(self, response: Response) -> Answer | None:
        try:
            if response.is_too_large:
                return self._layer.problems.answer_too_large(None)
            if not is_undone(response.status):
                await self._unclaimed.commit()
        except StoreAway:
            metrics.FAIL_CLOSED.labels(self._name).inc()
            return self._layer.problems.store_unavailable()
        finally:
            await self._unclaimed.release()
        return None

    async def broke(self, error: BaseException) -> Answer | None:
        await self._unclaimed.release()
        return None


class _OutsideHands:
    def __init__(self, layer: Layer, provider_key: str) -> None:
        self.mint = Mint({})
        self._layer = layer
        self._provider_key = provider_key

    @property
    def tx(self) -> Tx:
        raise PhaseMisuse('A route with effect="outside" has no tx of its own: use the one that each phase is given.')

    async def phase(self, name: str, work: Callable[..., Awaitable[Any]], args: tuple[Any, ...]) -> Any:
        shape = shape_of(work)
        unclaimed = await self._layer.store.unclaimed()
        try:
            kept = shape.kept(await work(unclaimed.tx, *args))
            await unclaimed.commit()
        finally:
            await unclaimed.release()
        return shape.read(kept)

    async def call(
        self, name: str, function: Callable[..., Awaitable[Any]], args: tuple[Any, ...], answers: Answers
    ) -> Any:
        async with asyncio.timeout(self._layer.settings.call_timeout.total_seconds()):
            return await function(*args, key=await self.provider_key(name))

    async def provider_key(self, name: str) -> str:
        return f"{self._provider_key}:{name}"


class _HandsWithoutStore(_OutsideHands):
    def __init__(self, layer: Layer, provider_key: str, error: StoreAway) -> None:
        super().__init__(layer, provider_key)
        self._error = error

    @property
    def tx(self) -> Tx:
        raise StoreAway(str(self._error))

    async def phase(self, name: str, work: Callable[..., Awaitable[Any]], args: tuple[Any, ...]) -> Any:
        raise StoreAway(str(self._error))
