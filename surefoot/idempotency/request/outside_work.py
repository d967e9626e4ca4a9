"""A request with an outside effect: its phases and calls, and how it ends.

A phase is a transaction of its own; a provider is called with none open. Whatever ends the request, one of these is
written down before anything is sent: the answer; that it is to be gone on with; that what a provider did is not known.
If nothing can be written, the claim's lease runs out, and another attempt takes it over.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, assert_never

import structlog

from surefoot.failpoints import failpoint
from surefoot.idempotency import metrics
from surefoot.idempotency.deciding import FIRST_ERROR, Forgotten, Rerun, Stored, fate_of, kept_headers
from surefoot.idempotency.request.attempt import Attempt
from surefoot.idempotency.request.idempotent import Answers
from surefoot.idempotency.request.results import Shape, shape_of
from surefoot.idempotency.request.waiting import Flight
from surefoot.idempotency.request.work import Response
from surefoot.idempotency.store import Begun, FirstPhase, Tx
from surefoot.idempotency.upkeep.alerts import say_exhausted
from surefoot.idempotency.values import (
    Answer,
    Answered,
    FenceLost,
    Found,
    InFlight,
    Note,
    OutcomeUnknown,
    PhaseMisuse,
    ProviderBusy,
    State,
    StoreAway,
    Unknown,
)
from surefoot.retry import backoff

log = structlog.get_logger("surefoot.idempotency")
BUSY_REST_S = 1.0


class OutsideHands:
    """The phases and calls of an attempt."""

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt
        self.mint = attempt.mint

    @property
    def tx(self) -> Tx:
        raise PhaseMisuse(
            'A route with effect="outside" has no transaction that stays open: a provider is called in between. Use '
            "the tx that each phase is given."
        )

    async def provider_key(self, name: str) -> str:
        return f"{self._attempt.provider_key}:{name}"

    async def phase(self, name: str, work: Callable[..., Awaitable[Any]], args: tuple[Any, ...]) -> Any:
        """`await work(tx, *args)` in its own transaction, once for all attempts; its result, from whichever it was."""
        attempt, shape = self._attempt, shape_of(work)
        with attempt.use(name):
            if name in attempt.claim.phases:
                return shape.read(attempt.claim.phases[name]["result"])
            attempt.trying(name)
            begun = attempt.begun
            if begun is not None and attempt.is_untouched:
                kept = await self._first_phase(begun, name, shape, work, args)
            else:
                kept = await self._later_phase(name, shape, work, args)
            attempt.committed()
            return shape.read(kept)

    async def _first_phase(
        self, begun: Begun, name: str, shape: Shape, work: Callable[..., Awaitable[Any]], args: tuple[Any, ...]
    ) -> Any:
        """In the transaction of the claim: no provider was called yet, so neither has to be durable before the
        other."""
        try:
            kept = shape.kept(await work(begun.tx, *args))
        except BaseException:  # also if the handler has lost patience with it
            await begun.undo()  # the claim is still held, and can be kept with the answer
            raise
        await self._attempt.keep(FirstPhase(name, {"result": kept}))
        return kept

    async def _later_phase(
        self, name: str, shape: Shape, work: Callable[..., Awaitable[Any]], args: tuple[Any, ...]
    ) -> Any:
        attempt = self._attempt
        claim = await attempt.keep()
        await attempt.noted()
        async with attempt.layer.store.phase(claim, name) as unit:
            kept = shape.kept(await work(unit.tx, *args))
            unit.result = {"result": kept, "calls": attempt.answers} if attempt.answers else {"result": kept}
            unit.notes.extend(attempt.notes)
        return kept

    async def call(
        self, name: str, function: Callable[..., Awaitable[Any]], args: tuple[Any, ...], answers: Answers
    ) -> Any:
        """`await function(*args, key=…)` under the key that was minted at the claim, the same on every attempt.

        A call whose answer was committed with a later phase is not made again. What it raises means that nobody knows
        what it did, unless it is one of `answers`: those are what the provider said."""
        attempt, shape = self._attempt, _call_shape(function)
        with attempt.use(name):
            if shape is not None and name in attempt.answers:
                return shape.read(attempt.answers[name])
            await attempt.keep()
            await attempt.announce(name)
            await attempt.check_lease()
            attempt.check_open(name)  # once more: it may have been answered meanwhile
            value = await self._called(name, function, args, answers)
            return value if shape is None else self._kept(name, shape, value)

    async def _called(
        self, name: str, function: Callable[..., Awaitable[Any]], args: tuple[Any, ...], answers: Answers
    ) -> Any:
        attempt = self._attempt
        key = await self.provider_key(name)
        timeout_s = attempt.layer.settings.call_timeout.total_seconds()
        attempt.calling(name)
        began = time.monotonic()
        await failpoint("idempotency.before_call")
        try:
            async with asyncio.timeout(timeout_s):
                value = await function(*args, key=key)
        except answers:
            self._reply(name, began, "refused")
            raise
        except ProviderBusy:
            attempt.end("busy")
            self._reply(name, began, "busy")
            raise
        except BaseException as error:
            attempt.end("unknown")
            self._reply(name, began, type(error).__name__)
            if not isinstance(error, Exception):  # the handler, or a middleware, has lost patience with it
                raise
            raise OutcomeUnknown(
                f"The call {name!r} ended with {type(error).__name__}, and nobody knows what the provider did. The "
                "request is made again under the same provider key."
            ) from error
        await failpoint("idempotency.called")
        self._reply(name, began, "answered")
        return value

    def _reply(self, name: str, began: float, outcome: str) -> None:
        took_ms = round((time.monotonic() - began) * 1000)
        self._attempt.notes.append(Note("replied", {"name": name, "outcome": outcome, "took_ms": took_ms}))

    def _kept(self, name: str, shape: Shape, value: Any) -> Any:
        try:
            kept = shape.kept(value)
            read = shape.read(kept)
        except PhaseMisuse:
            return value
        self._attempt.answers[name] = kept
        return read


def _call_shape(function: Callable[..., Any]) -> Shape | None:
    """None: what it answers is not kept, because it is not annotated or no JSON. It is then called again on resume."""
    try:
        shape = shape_of(function)
    except PhaseMisuse:
        return None
    return shape if shape.is_typed else None


class OutsideWork:
    """How it ends."""

    def __init__(self, attempt: Attempt, flight: Flight) -> None:
        self._attempt = attempt
        self._flight = flight
        self._layer = attempt.layer
        self._problems = attempt.layer.problems
        self._found: Found | None = None
        """What those who wait for it are given."""

    async def answered(self, response: Response) -> Answer | None:
        return await self._closed(response, f"It was answered with {response.status}.")

    async def broke(self, error: BaseException) -> Answer | None:
        if not isinstance(error, Exception):  # cancelled: the process is ending, and the lease runs out
            await self._leave()
            return None
        return await self._closed(None, f"{type(error).__name__} was raised.")

    async def _closed(self, response: Response | None, error: str) -> Answer | None:
        attempt = self._attempt
        attempt.leave()
        try:
            await attempt.noted()
            if attempt.ending is not None:
                return await self._ended(error)
            if attempt.is_gone:  # with all that was done in it: whoever asks again begins anew
                return None
            return await self._settled(response, error)
        except FenceLost:
            return await self._look_again()
        except StoreAway:
            return self._away()
        finally:
            await self._leave()

    async def _leave(self) -> None:
        self._attempt.close()
        try:
            if self._attempt.begun is not None:
                await self._attempt.begun.release()
        finally:
            self._layer.flights.land(self._flight, self._found)

    # -- the handler came to its end ----------------------------------------------------------------------------------

    async def _settled(self, response: Response | None, error: str) -> Answer | None:
        attempt = self._attempt
        if response is None:
            if attempt.route.on_failure == "replay":
                return await self._store(self._problems.failed(), "FAILED_TERMINAL")
            await self._rerun(error)
            return None
        if response.is_too_large:  # what it did is done, and would be answered the same the next time
            return await self._store(self._problems.answer_too_large(attempt.mint.resource), "FAILED_TERMINAL")
        fate = fate_of(response.status, attempt.route, begun=attempt.has_begun)
        match fate:
            case Stored(state):
                answer = Answer(response.status, kept_headers(response.headers), response.body)
                stored = await self._store(answer, state)
                return None if stored is answer else stored
            case Forgotten():
                await self._forget()
            case Rerun():
                await self._rerun(error)
            case _:
                assert_never(fate)
        return None

    async def _store(self, answer: Answer, state: State) -> Answer:
        """This, or what is sent in its place."""
        attempt = self._attempt
        if answer.status >= FIRST_ERROR and attempt.is_in_doubt:
            return await self._unknown("It was refused before it was known what an earlier attempt had done.")
        if attempt.is_untouched:
            await attempt.finish(answer, state)
        else:
            await self._layer.store.complete(await attempt.keep(), answer, state, attempt.notes)
        self._found = Answered(answer)
        return answer

    async def _forget(self) -> None:
        if self._attempt.begun is None:
            await self._layer.store.forget(self._attempt.claim)
        # otherwise its transaction is rolled back, and nothing was ever there

    async def _rerun(self, error: str) -> None:
        attempt = self._attempt
        self._found = InFlight(0)
        if attempt.is_untouched:
            await attempt.finish(self._problems.failed(), "FAILED_RETRY")
        elif attempt.has_begun or attempt.begun is None:
            await self._fail(error, unknown=attempt.is_in_doubt, rest=self._rest())
        # Otherwise its transaction is rolled back, and it is left as the attempt before has left it: nothing has
        # happened, nothing is pending, and whoever asked may ask again.

    # -- the handler was ended ----------------------------------------------------------------------------------------

    async def _ended(self, error: str) -> Answer:
        attempt = self._attempt
        match attempt.ending:
            case "unknown":
                return await self._unknown(error)
            case "busy":
                await self._fail("The provider had a call of ours in flight.", unknown=True, rest=self._rest())
                self._found = InFlight(BUSY_REST_S)
                return self._problems.in_flight(BUSY_REST_S)
            case "lost":
                return await self._look_again()
            case "left":
                if attempt.begun is None and not attempt.is_gone:
                    await self._fail("It was answered too early.", unknown=attempt.is_in_doubt, rest=self._rest())
                return self._problems.failed()
            case "away" | None:
                return self._away()
            case _:
                assert_never(attempt.ending)

    async def _unknown(self, error: str) -> Answer:
        attempt = self._attempt
        rest = self._rest()
        await self._fail(error, unknown=True, rest=rest)
        metrics.UNKNOWN.labels(attempt.claim.asked.route).inc()
        self._found = Unknown(attempt.mint.resource, attempt.claim.attempt)
        return self._problems.outcome_unknown(attempt.mint.resource, rest.total_seconds())

    async def _fail(self, error: str, *, unknown: bool, rest: timedelta | None) -> None:
        attempt = self._attempt
        claim = await attempt.keep()
        exhausted = await self._layer.store.fail(
            claim,
            error=error,
            unknown=unknown,
            retry_in=rest,
            most_attempts=attempt.route.attempts,
            notes=attempt.notes,
        )
        if exhausted:
            await say_exhausted(self._layer.alerts, claim, error, attempt.mint.resource)

    def _rest(self) -> timedelta:
        """How long the completer leaves it alone; longest when people have been told, for it must end some day."""
        settings, attempt = self._layer.settings, self._attempt.claim.attempt
        if attempt >= self._attempt.route.attempts:
            return settings.retry_longest
        return backoff(attempt - 1, shortest=settings.retry_first, longest=settings.retry_longest)

    # -- nothing could be written -------------------------------------------------------------------------------------

    async def _look_again(self) -> Answer:
        """Somebody else has the claim: their answer, if it is there."""
        metrics.FENCE_LOST.labels(self._attempt.claim.asked.route).inc()
        try:
            found = await self._layer.store.look(self._attempt.claim.asked)
        except StoreAway:
            return self._away()
        self._found = found if isinstance(found, Answered) else None
        return self._problems.found(found if found is not None else InFlight(0))

    def _away(self) -> Answer:
        metrics.FAIL_CLOSED.labels(self._attempt.claim.asked.route).inc()
        return self._problems.store_unavailable()
