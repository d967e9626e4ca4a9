"""One try at a request with an outside effect: its claim and lease, what it has minted, and how far it has come."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal
from uuid import uuid4

import structlog

from surefoot.idempotency.request.idempotent import Mint
from surefoot.idempotency.request.work import Layer
from surefoot.idempotency.settings import IdempotencySettings, Route
from surefoot.idempotency.store import Begun, FirstPhase, Store
from surefoot.idempotency.values import Answer, Claim, FenceLost, Note, PhaseMisuse, State, StoreAway, StoredRequest

log = structlog.get_logger("surefoot.idempotency")
Ending = Literal["unknown", "busy", "lost", "away", "left"]
"""Why a handler was ended: nobody knows what a provider did; it has a call of ours in flight; somebody else has the
claim; the store does not answer; it answered and left a phase behind that was not done."""
_ENDINGS: dict[Ending, str] = {
    "unknown": "nobody knows what a provider did that it has called, and whoever tries another may do it twice",
    "busy": "a provider has a call of it in flight already",
    "lost": "somebody else works on it",
    "away": "the store does not answer",
    "left": "it was answered while a phase of it was under way",
}


class Lease:
    """Keeps a claim alive while its request is worked on. Starts when it is made: the claim has just been committed.

    A timer, not a task: most requests are over before the first renewal, and should not pay for it."""

    def __init__(self, store: Store, claim: Claim, settings: IdempotencySettings) -> None:
        self._store = store
        self._claim = claim
        self._every_s = settings.renew_every.total_seconds()
        self._lease_s = settings.lease.total_seconds()
        self._loop = asyncio.get_running_loop()
        self._known_at = self._loop.time()
        self._is_lost = False
        self._renewing: asyncio.Task[None] | None = None
        self._timer = self._loop.call_later(self._every_s, self._begin_renewing)

    async def check(self) -> None:
        """FenceLost unless the claim is surely ours now: asked before anything that cannot be taken back.

        A process that was stopped for a while wakes up with its timers overdue, and must not believe what it knew."""
        if not self._is_lost and self._loop.time() - self._known_at > self._lease_s / 2:
            await self._renew()
        if self._is_lost:
            raise FenceLost

    def stop(self) -> None:
        self._timer.cancel()
        if self._renewing is not None:
            self._renewing.cancel()

    def _begin_renewing(self) -> None:
        self._renewing = self._loop.create_task(self._renew_on_time())

    async def _renew_on_time(self) -> None:
        try:
            await self._renew()
        except StoreAway:
            log.warning("a lease could not be renewed: the store is away")
        if not self._is_lost:
            self._timer = self._loop.call_later(self._every_s, self._begin_renewing)

    async def _renew(self) -> None:
        asked_at = self._loop.time()
        if await self._store.renew(self._claim):
            self._known_at = asked_at
        else:
            self._is_lost = True


class Attempt:
    def __init__(
        self, layer: Layer, route: Route, claim: Claim, request: StoredRequest, begun: Begun | None = None
    ) -> None:
        self.layer = layer
        self.route = route
        self.claim = claim
        self.mint = Mint(claim.minted)
        self.ending: Ending | None = None
        self.notes: list[Note] = []
        """Lines of the history that the next write takes along."""
        self.answers: dict[str, Any] = _answers_in(claim)
        """What calls have answered, as far as it can be kept."""
        self._request = request
        self._new_key = uuid4().hex
        self._begun = begun
        self._was_kept = claim.provider_key is not None
        self._is_kept = begun is None
        self._tried: set[str] = set()
        self._has_called = False
        self._has_committed = False
        self._used: set[str] = set()
        self._under_way: str | None = None
        self._is_calling = False
        self._is_closed = False
        self._noting: set[asyncio.Task[None]] = set()
        self._lease = None if begun is not None else self._leased()
        self.mint.is_closed = self._was_kept

    @property
    def has_begun(self) -> bool:
        """Whether something of it may have happened that cannot be undone, in this attempt or an earlier one."""
        return self._was_kept or self._has_called or self._has_committed

    @property
    def is_in_doubt(self) -> bool:
        """Whether an earlier attempt may have called a provider, and this one has not come as far as that.

        Of the calls that are known it has made each again. There may be one that is not: the first of all is noted
        while it runs. But handlers go through their phases and calls in one order, so whatever this attempt ran itself,
        and did not find done, is where the earlier one had come to then."""
        return self.claim.in_doubt and not (self._tried and self.claim.unsettled <= self._tried)

    @property
    def is_gone(self) -> bool:
        """Whether the transaction of the claim is over, and the claim was not kept by it."""
        return self._begun is None and not self._is_kept

    @property
    def begun(self) -> Begun | None:
        """The transaction of the claim, until it is kept."""
        return self._begun

    @property
    def is_untouched(self) -> bool:
        """Whether this is the first attempt, and nothing of it is committed: it can end in one transaction."""
        return self._begun is not None and self.claim.attempt == 1

    def end(self, why: Ending) -> None:
        self.ending = self.ending or why

    @property
    def provider_key(self) -> str:
        """What calls are made under. Nobody uses it before the claim is kept, with it."""
        return self.claim.provider_key or self._new_key

    async def keep(self, phase: FirstPhase | None = None) -> Claim:
        """Commit the claim, with everything that has to be the same on every attempt."""
        if self._begun is not None:
            begun, self._begun = self._begun, None
            try:
                self.claim = await begun.keep(
                    self.mint.kept(), self.mint.resource, self.provider_key, self._request, phase
                )
            except BaseException as error:
                await self._not_kept(begun, error)
                raise
            self._is_kept = True
            self.mint.is_closed = True
            self._lease = self._leased()
        return self.claim

    async def _not_kept(self, begun: Begun, error: BaseException) -> None:
        """What a phase had written shows its error when it is committed: that is undone, and the claim still held."""
        is_of_the_phase = isinstance(error, Exception) and not isinstance(error, FenceLost | StoreAway)
        try:
            if is_of_the_phase and self.claim.attempt == 1:
                await begun.undo()
                self._begun = begun
        finally:
            if self._begun is None:
                await begun.release()

    async def finish(self, answer: Answer, state: State) -> None:
        """End an untouched one: claim and answer in one transaction, as on a local route."""
        assert self._begun is not None
        begun, self._begun = self._begun, None
        try:
            await begun.finish(answer, state)
            self._is_kept = True
        finally:
            await begun.release()

    async def check_lease(self) -> None:
        assert self._lease is not None, "the claim is kept before anything is called"
        await self._lease.check()

    def check_open(self, name: str) -> None:
        """PhaseMisuse if a phase or a call of this name may not begin any more."""
        if self._is_closed:
            raise PhaseMisuse(
                f"{name!r} was begun when the request had been answered (in a background task, perhaps). Await phases "
                "and calls before the handler returns."
            )
        if self.ending is not None:
            raise PhaseMisuse(
                f"{name!r} was begun although the request cannot go on now: {_ENDINGS[self.ending]}. Let the error out "
                "that said so: the request is answered by the layer, and gone on with from where it came to."
            )

    @contextmanager
    def use(self, name: str) -> Iterator[None]:
        """Around a phase or a call: each name is used once, and one after the other."""
        self.check_open(name)
        if self._under_way is not None:
            raise PhaseMisuse(
                f"{name!r} was begun while {self._under_way!r} was under way. Await phases and calls one after the "
                "other: a resumed request goes through them in the same order."
            )
        if name in self._used:
            raise PhaseMisuse(
                f"{name!r} was used for two phases or calls of one request. Give each a name of its own: it says what "
                "is done already when the request is resumed."
            )
        self._used.add(name)
        self._under_way = name
        try:
            yield
        except FenceLost:
            self.end("lost")
            raise
        except StoreAway:
            self.end("away")
            raise
        finally:
            self._under_way, self._is_calling = None, False

    def trying(self, name: str) -> None:
        """A phase or a call that is not done yet is run now."""
        self._tried.add(name)

    def committed(self) -> None:
        self._has_committed = True
        self.notes.clear()

    async def announce(self, name: str) -> None:
        """Tell the history of a call before it is made, unless it is the first of all: a phase that had settled an
        earlier one would seem to settle this one too."""
        if self._has_called or self.claim.attempt > 1:
            await self.layer.store.note(self.claim, self._call(name))

    def calling(self, name: str) -> None:
        """A provider is about to be called. Of the first call the history is told while it runs, to lose no time."""
        if not self._has_called and self.claim.attempt == 1:
            task = asyncio.create_task(self._note(self._call(name)))
            self._noting.add(task)
            task.add_done_callback(self._noting.discard)
        self._has_called = self._is_calling = True
        self.trying(name)

    def _call(self, name: str) -> Note:
        return Note("called", {"name": name, "attempt": self.claim.attempt})

    async def noted(self) -> None:
        """Wait until the history knows of the calls."""
        if self._noting:
            await asyncio.wait(self._noting)

    def leave(self) -> None:
        """The handler is over, or says so. What a task of its own still does is not what it has answered."""
        self._is_closed = True
        if self._under_way is not None:
            self.end("unknown" if self._is_calling else "left")

    def close(self) -> None:
        self._is_closed = True
        if self._lease is not None:
            self._lease.stop()

    def _leased(self) -> Lease:
        return Lease(self.layer.store, self.claim, self.layer.settings)

    async def _note(self, note: Note) -> None:
        try:
            await self.layer.store.note(self.claim, note)
        except StoreAway:
            log.warning("a provider's call could not be noted: the store is away", name=note.details["name"])


def _answers_in(claim: Claim) -> dict[str, Any]:
    """What calls had answered when the phases of earlier attempts were committed."""
    return {name: answer for kept in claim.phases.values() for name, answer in kept.get("calls", {}).items()}
