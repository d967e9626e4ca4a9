"""A key with everything that can happen to it: clients, processes that die or sleep, a provider, a completer, time.

Each move is made on a store and told to the reference, and they must agree on it. What is promised is looked at when
it is over (see `promises`).
"""

import random
from collections import Counter
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import count
from typing import Any, Literal, Protocol, assert_never

from surefoot.idempotency.settings import Route
from surefoot.idempotency.store import FirstPhase
from surefoot.idempotency.values import (
    Answer,
    Answered,
    Asked,
    Claim,
    FenceLost,
    Found,
    Gone,
    InFlight,
    Mismatch,
    StoredRequest,
    Unknown,
)
from tests.support.idempotency_model.promises import Provider, Seen
from tests.support.idempotency_model.reference import (
    Began,
    Failed,
    Forgotten,
    Kept,
    Phased,
    Reference,
    Renewed,
    Resumed,
    Rules,
    Verdict,
)
from tests.support.idempotency_model.reference import Settled as SettledFact

REQUEST = StoredRequest("POST", "/charges", "", (), b"{}", "tenant")
RETRY_IN = timedelta(seconds=30)
Ending = Literal["well", "error", "refusal", "come_again"]
"""What the handler comes to, if nothing else happens: an answer, a 5xx, a 4xx that is stored, a 429 that is not."""
ENDINGS: tuple[Ending, ...] = ("well", "error", "refusal", "come_again")
OUTSIDE = ("keep", "created", "call", "finished", "end")
LOCAL = ("work", "finish")


@dataclass
class Worker:
    """One attempt at a request, in one of several processes: it can be stopped between any two of its steps."""

    number: int
    life: int
    """Which life of the key it works on, by the reference's count."""
    claim: Claim
    begun: Any | None
    """Its open transaction, until that is kept or finished."""
    ending: Ending
    steps: list[str] = field(default_factory=list)
    """Those that are left."""
    resumes: bool = False
    asleep: bool = False
    """Its process is frozen: it does nothing until it is woken, and knows nothing of what has happened meanwhile."""
    committed: bool = False
    """Whether it has committed a phase."""
    said: str | None = None
    """What the provider has said to it."""

    @property
    def has_transaction(self) -> bool:
        return self.begun is not None


class Ground(Protocol):
    """What the store stands on: its verbs, and a clock that can be moved."""

    store: Any

    def now(self) -> datetime: ...

    async def advance(self, by: timedelta, workers: list[Worker]) -> None: ...

    async def quiet(self, workers: list[Worker]) -> None:
        """Wait until only these hold the key's lock: what was only looked at is given back a little later."""


class World:
    def __init__(self, ground: Ground, rules: Rules, asked: Asked, chance: random.Random) -> None:
        self.ground = ground
        self.store = ground.store
        self.route = Route(effect=asked.effect, replay_for=rules.replay_for, gone_for=rules.gone_for,
                           attempts=rules.attempts)  # fmt: skip
        self.asked = asked
        self.chance = chance
        self.reference = Reference(rules)
        self.provider = Provider(chance)
        self.workers: list[Worker] = []
        self.seen = Seen()
        self.verdicts: Counter[Verdict] = Counter()
        self._numbers = count(1)

    # -- clients ------------------------------------------------------------------------------------------------------

    async def request(self, asks: bytes) -> Verdict:
        expected = self.reference.verdict(asks, self.ground.now())
        if expected in ("begin", "resume") and any(worker.has_transaction for worker in self.workers):
            expected = "in_flight"  # a worker has the key's lock
        self.verdicts[expected] += 1
        asked = Asked(self.asked.tenant, self.asked.key_hash, self.asked.route, self.asked.effect, asks, 1)
        await self.ground.quiet(self.workers)
        found = await self.store.begin(asked, self.route)
        if expected in ("begin", "resume"):
            assert hasattr(found, "claim"), f"expected {expected}, got {found}"
            self._started(found, resumes=expected == "resume")
        else:
            assert not hasattr(found, "claim"), f"expected {expected}, and it was claimed"
            assert _named(found) == expected, f"expected {expected}, got {found}"
            if isinstance(found, Answered):
                assert self.reference.settled is not None
                assert found.answer == self.reference.settled.answer
                self.seen.answers.append((len(self.reference.lives), asks, found.answer))
        return expected

    def _started(self, begun: Any, *, resumes: bool) -> None:
        claim = begun.claim
        if resumes:
            self._check_resumed(claim)
        else:
            assert (claim.attempt, dict(claim.minted), claim.provider_key) == (1, {}, None)
        life = len(self.reference.lives) + (0 if resumes else 1)
        ending = self._ending()
        steps: Sequence[str] = LOCAL if self.asked.effect == "local" else OUTSIDE
        if ending == "come_again" and self.asked.effect == "outside" and not resumes:
            steps = self.chance.choice((("keep", "end"), ("keep", "created", "end")))
        self.workers.append(Worker(next(self._numbers), life, claim, begun, ending, list(steps), resumes))

    def _check_resumed(self, claim: Any) -> None:
        """A later attempt is told what the earlier ones have kept."""
        assert claim.attempt == self.reference.attempts + 1
        kept = self.reference.kept
        if kept is not None:
            assert (claim.minted, claim.provider_key) == ({"id": kept.minted}, kept.provider_key)
        assert dict(claim.phases) == self.reference.phases

    def _ending(self) -> Ending:
        return self.chance.choices(ENDINGS, weights=(6, 2, 1, 1))[0]

    # -- processes ----------------------------------------------------------------------------------------------------

    def movable(self) -> list[Worker]:
        """Those that can make a step now. Whoever resumes holds the row until it is kept, and others would wait."""
        holding = [worker for worker in self.workers if worker.has_transaction]
        some = holding if any(worker.resumes for worker in holding) else self.workers
        return [worker for worker in some if not worker.asleep]

    async def step(self, worker: Worker) -> None:
        name = worker.steps.pop(0)
        if name == "keep":
            await self._keep(worker)
        elif name in ("created", "finished"):
            await self._phase(worker, name)
        elif name == "call":
            self._call(worker)
        elif name == "end":
            await self._end(worker)
        elif name == "finish":
            await self._finish(worker)

    async def _keep(self, worker: Worker) -> None:
        if worker.ending == "come_again" and not worker.resumes and self.chance.random() < 0.5:
            await self.crash(worker)  # a 429 before anything was done: as if it had not been asked
            return
        number, now = worker.number, self.ground.now()
        assert worker.begun is not None
        begun, worker.begun = worker.begun, None
        first_phase = self._first_phase(worker)
        minted = {"id": f"id-{number}"}
        worker.claim = await begun.keep(minted, minted["id"], f"provider-{number}", REQUEST, first_phase)
        provider_key = worker.claim.provider_key
        assert provider_key is not None
        if worker.resumes:
            self.reference.happened(Resumed(number, now))
        else:
            self.reference.happened(Began(number, now, worker.claim.asked.fingerprint, "outside"))
        kept, first = Kept(number, worker.claim.minted["id"], provider_key), self.reference.kept
        assert first is None or (first.minted, first.provider_key) == (kept.minted, kept.provider_key)
        self.reference.happened(kept)
        if first_phase is not None:
            worker.committed = True
            self.reference.happened(Phased(number, first_phase.name, first_phase.result))

    def _first_phase(self, worker: Worker) -> FirstPhase | None:
        """A new request may commit its first phase with its claim."""
        if worker.resumes or worker.steps[0] != "created" or self.chance.random() < 0.5:
            return None
        return FirstPhase(worker.steps.pop(0), f"created by {worker.number}")

    async def _phase(self, worker: Worker, name: str) -> None:
        if name == "finished" and worker.said != "charged":
            return
        if name in worker.claim.phases:
            return
        result = f"{name} by {worker.number}"

        async def commit() -> None:
            async with self.store.phase(worker.claim, name) as unit:
                unit.result = result

        if await self._writes(worker, commit()):
            assert name not in self.reference.phases, "a phase is committed once"
            worker.committed = True
            self.reference.happened(Phased(worker.number, name, result))

    def _call(self, worker: Worker) -> None:
        key = worker.claim.provider_key
        assert key is not None
        self.seen.provider_keys.setdefault(worker.life, set()).add(key)
        worker.said = self.provider.call(key)

    async def _end(self, worker: Worker) -> None:
        if worker.ending == "come_again" and not worker.resumes and not worker.committed:
            if await self._writes(worker, self._forget(worker)):
                self.reference.happened(Forgotten(worker.number))
        elif worker.said in (None, "nothing") or worker.ending in ("error", "come_again"):
            await self._fail(worker, unknown=worker.said == "nothing")
        else:
            well = worker.said == "charged" and worker.ending == "well"
            answer = Answer(201 if well else 402, (), f"{worker.claim.minted} by {worker.number}".encode())
            state = "COMPLETED" if well else "FAILED_TERMINAL"
            if await self._writes(worker, self.store.complete(worker.claim, answer, state)):
                self._settled(worker, answer)
        self._gone(worker)

    async def _forget(self, worker: Worker) -> None:
        assert await self.store.forget(worker.claim) is True

    async def _fail(self, worker: Worker, *, unknown: bool) -> None:
        now = self.ground.now()
        limit = self.reference.rules.attempts
        failing = self.store.fail(
            worker.claim, error="it failed", unknown=unknown, retry_in=RETRY_IN, most_attempts=limit
        )
        if await self._writes(worker, failing):
            self.reference.happened(Failed(worker.number, now + RETRY_IN))

    async def _finish(self, worker: Worker) -> None:
        """Of a local route: work and answer in one transaction."""
        if worker.ending == "come_again":
            await self.crash(worker)
            return
        assert worker.begun is not None
        number, now = worker.number, self.ground.now()
        begun = worker.begun
        answer = Answer({"well": 201, "error": 500, "refusal": 404}[worker.ending], (), f"by {number}".encode())
        if worker.ending != "well":
            await begun.undo()
        states = {"well": "COMPLETED", "error": "FAILED_RETRY", "refusal": "FAILED_TERMINAL"}
        await begun.finish(answer, states[worker.ending])
        worker.begun = None
        asks = worker.claim.asked.fingerprint
        self.reference.happened(Resumed(number, now) if worker.resumes else Began(number, now, asks, "local"))
        if worker.ending == "error":
            self.reference.happened(Failed(number, None))
        else:
            self.seen.local_effects[worker.life] += worker.ending == "well"
            self._settled(worker, answer)
        self._gone(worker)

    async def _writes(self, worker: Worker, write: Awaitable[Any]) -> bool:
        """Whether it was the holder's to write: the store and the reference must agree."""
        holds = self.reference.holder == worker.number and worker.life == len(self.reference.lives)
        try:
            await write
        except FenceLost:
            assert not holds, f"attempt {worker.number} holds the key, and was told otherwise"
            self._gone(worker)
            return False
        assert holds, f"attempt {worker.number} does not hold the key, and wrote"
        return True

    def _settled(self, worker: Worker, answer: Answer) -> None:
        self.reference.happened(SettledFact(worker.number, self.ground.now(), answer))
        self.seen.answers.append((worker.life, worker.claim.asked.fingerprint, answer))

    def _gone(self, worker: Worker) -> None:
        if worker in self.workers:
            self.workers.remove(worker)

    async def renew(self, worker: Worker) -> None:
        now = self.ground.now()
        expected = worker.life == len(self.reference.lives) and self.reference.can_renew(worker.number)
        assert await self.store.renew(worker.claim) is expected
        if expected:
            self.reference.happened(Renewed(worker.number, now))

    async def crash(self, worker: Worker) -> None:
        """It is gone, and the server rolls its transaction back."""
        if worker.begun is not None:
            await worker.begun.release()
        self._gone(worker)

    # -- the rest of the world ----------------------------------------------------------------------------------------

    async def complete(self) -> bool:
        """The completer looks once; whether it found something."""
        overdue = self.asked.key_hash in await self.store.overdue(1000, self.reference.rules.grace)
        expected = self.reference.is_overdue(self.ground.now())
        assert overdue is expected, f"overdue is {overdue} at {self.ground.now()} after {self.reference.life}"
        await self.ground.quiet(self.workers)
        taken = await self.store.take_over(self.asked.key_hash) if overdue else None
        if taken is None:
            assert not overdue or any(worker.has_transaction for worker in self.workers)
            return False
        claim, _ = taken
        self._check_resumed(claim)
        number = next(self._numbers)
        self.reference.happened(Resumed(number, self.ground.now()))
        steps = list(OUTSIDE[1:])
        self.workers.append(Worker(number, len(self.reference.lives), claim, None, self._ending(), steps, True))
        return True

    async def pass_time(self, by: timedelta) -> None:
        """Transactions do not last as long as that: the server ends them."""
        for worker in [worker for worker in self.workers if worker.has_transaction]:
            await self.crash(worker)
        await self.ground.advance(by, self.workers)

    async def keep_house(self) -> None:
        await self.store.expire(100)
        await self.store.reap(100)


def _named(found: Found) -> Verdict:
    match found:
        case Answered():
            return "answered"
        case InFlight():
            return "in_flight"
        case Mismatch():
            return "mismatch"
        case Gone():
            return "gone"
        case Unknown():
            return "unknown"
        case _:
            assert_never(found)
