"""How a request with an outside effect ends.

Whatever ends it, one of these is written down before anything is sent: the answer; that it is to be gone on with; that
nobody knows what a provider did. If nothing can be written, the claim's lease runs out, and somebody takes it over.
"""

from datetime import timedelta
from typing import assert_never

import structlog

from surefoot.idempotency import metrics
from surefoot.idempotency.request.attempt import Attempt
from surefoot.idempotency.request.storing import FIRST_ERROR, Forgotten, Rerun, Stored, fate_of, kept_headers
from surefoot.idempotency.request.waiting import Flight
from surefoot.idempotency.request.work import Response
from surefoot.idempotency.upkeep.alerts import say_exhausted
from surefoot.idempotency.values import Answer, Answered, FenceLost, Found, InFlight, State, StoreAway, Unknown
from surefoot.retry import backoff

log = structlog.get_logger("surefoot.idempotency")
BUSY_REST_S = 1.0


class OutsideWork:
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
