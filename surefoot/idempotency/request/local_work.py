"""A request with an effect in our own database: claim, effect and answer are one transaction."""

from collections.abc import Awaitable, Callable
from typing import Any, assert_never

from surefoot.idempotency import metrics
from surefoot.idempotency.deciding import Forgotten, Rerun, Stored, fate_of, is_undone, kept_headers
from surefoot.idempotency.request.idempotent import Answers, Mint
from surefoot.idempotency.request.waiting import Led
from surefoot.idempotency.request.work import Layer, Response
from surefoot.idempotency.settings import Route
from surefoot.idempotency.store import Tx
from surefoot.idempotency.values import Answer, Answered, FenceLost, Found, InFlight, PhaseMisuse, State, StoreAway


class LocalHands:
    """One transaction, given by the claim."""

    def __init__(self, tx: Tx) -> None:
        self.tx = tx
        self.mint = Mint({})

    async def phase(self, name: str, work: Callable[..., Awaitable[Any]], args: tuple[Any, ...]) -> Any:
        raise _only_outside("phase", name)

    async def call(
        self, name: str, function: Callable[..., Awaitable[Any]], args: tuple[Any, ...], answers: Answers
    ) -> Any:
        raise _only_outside("call", name)

    async def provider_key(self, name: str) -> str:
        raise _only_outside("call", name)


def _only_outside(what: str, name: str) -> PhaseMisuse:
    return PhaseMisuse(
        f'The {what} {name!r} needs a route with effect="outside". A local route has one transaction, request.tx, and '
        "no provider is called while it is open."
    )


class LocalWork:
    """How it ends."""

    def __init__(self, layer: Layer, route: Route, led: Led) -> None:
        self._layer = layer
        self._route = route
        self._begun = led.begun
        self._flight = led.flight
        self._found: Found | None = None
        """What those who wait for it are given."""

    async def answered(self, response: Response) -> Answer | None:
        return await self._closed(response)

    async def broke(self, error: BaseException) -> Answer | None:
        if not isinstance(error, Exception):  # cancelled: the process is ending, and nothing of it stays
            await self._leave()
            return None
        return await self._closed(None)

    async def _closed(self, response: Response | None) -> Answer | None:
        asked = self._begun.claim.asked
        try:
            try:
                return await self._settled(response)
            except (FenceLost, StoreAway):
                raise
            except Exception:  # what the handler had done cannot be committed: it failed, and answered too early
                await self._settled(None)
                raise
        except FenceLost:  # the transaction, and its lock, had been ended behind our back
            metrics.FENCE_LOST.labels(asked.route).inc()
            return self._layer.problems.in_flight(0)
        except StoreAway:
            metrics.FAIL_CLOSED.labels(asked.route).inc()
            return self._layer.problems.store_unavailable()
        finally:
            await self._leave()

    async def _settled(self, response: Response | None) -> Answer | None:
        problems = self._layer.problems
        if response is None or response.is_too_large:
            answer = problems.failed() if response is None else problems.answer_too_large(None)
            if self._route.on_failure == "replay":
                await self._store(answer, "FAILED_TERMINAL")
                return answer
            await self._rerun(answer)
            return None if response is None else answer
        fate = fate_of(response.status, self._route, begun=False)
        match fate:
            case Stored(state):
                await self._store(Answer(response.status, kept_headers(response.headers), response.body), state)
            case Forgotten():
                await self._begun.release()
            case Rerun():
                await self._rerun(Answer(response.status, (), b""))
            case _:
                assert_never(fate)
        return None

    async def _store(self, answer: Answer, state: State) -> None:
        if is_undone(answer.status):
            await self._begun.undo()
        await self._begun.finish(answer, state)
        self._found = Answered(answer)

    async def _rerun(self, answer: Answer) -> None:
        """Nothing stays but what was asked for: the key is that request's, whoever tries it next."""
        self._found = InFlight(0)
        await self._begun.undo()
        await self._begun.finish(answer, "FAILED_RETRY")

    async def _leave(self) -> None:
        try:
            await self._begun.release()
        finally:
            self._layer.flights.land(self._flight, self._found)
