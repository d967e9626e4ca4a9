"""The transactions that requests work in, and what is written at their end.

Nothing is written until then. A local route's work is done in the transaction of its claim, and claim and answer are
one row at its end; a claim for an outside effect is kept with all that a later attempt needs, before a provider is
called, and each of its phases is a transaction. Lines of the history ride along with each.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from types import TracebackType
from typing import Any, Self

from surefoot.consumer.failures import sqlstate_of
from surefoot.failpoints import failpoint
from surefoot.idempotency.deciding import Again, Claimable, First, TakeOver
from surefoot.idempotency.settings import Route
from surefoot.idempotency.store.encryption import Encryption
from surefoot.idempotency.store.statements import Statements
from surefoot.idempotency.store.transaction import OpenTransaction, Tx
from surefoot.idempotency.values import Answer, Claim, FenceLost, Note, PhaseMisuse, State, StoredRequest

DUPLICATE = "23505"


@dataclass(frozen=True, slots=True)
class Means:
    """What claims are written with."""

    sql: Statements
    encryption: Encryption
    owner: str
    lease: timedelta


@dataclass(frozen=True, slots=True)
class FirstPhase:
    """A phase whose work was done in the transaction of the claim: both are committed, or neither."""

    name: str
    result: Any


class Begun:
    """A claim that is not committed yet: the open transaction that holds the key's lock, and what can become of it.

    Leaving it without `keep` or `finish` rolls back: as if it had not been asked."""

    def __init__(
        self, means: Means, route: Route, decision: Claimable, claim: Claim, transaction: OpenTransaction
    ) -> None:
        self._means = means
        self._route = route
        self._decision = decision
        self._transaction = transaction
        self.claim = claim
        self.tx = Tx(transaction)

    async def keep(
        self,
        minted: Mapping[str, Any],
        resource: str | None,
        provider_key: str,
        request: StoredRequest,
        phase: FirstPhase | None = None,
    ) -> Claim:
        """Commit the claim with what every attempt has to know. What an earlier attempt has kept stays as it is."""
        kept = {**minted, **self.claim.minted}
        provider_key = self.claim.provider_key or provider_key
        minted_text = json_text(kept, what="What was minted")
        encrypted = self._means.encryption.encrypted(request)
        await self._transaction.write_work()
        if isinstance(self._decision, TakeOver):
            row = await self._transaction.fetchrow(
                self._means.sql.keep_taken_over, *under(self.claim), minted_text, resource, encrypted, provider_key
            )
        else:
            asked, route = self.claim.asked, self._route
            row = await self._transaction.fetchrow(
                self._means.sql.keep,
                *under(self.claim),
                _fence_seen(self._decision),
                asked.tenant,
                asked.route,
                asked.effect,
                asked.fingerprint,
                asked.fingerprint_version,
                self._means.owner,
                self._means.lease,
                minted_text,
                resource,
                encrypted,
                route.replay_for,
                route.replay_for + route.gone_for,
                provider_key,
                *lines(self._claimed),
            )
        if row is None:
            raise await self._transaction.why_not(fence_lost(self.claim))
        if phase is not None:
            await self._write(phase)
        await self._transaction.commit()
        await failpoint("idempotency.claimed")
        if phase is not None:
            await failpoint("idempotency.phase_committed")
        self.claim = replace(self.claim, minted=kept, provider_key=provider_key)
        return self.claim

    async def _write(self, phase: FirstPhase) -> None:
        result = json_text(phase.result, what=f"The result of phase {phase.name!r}")
        done = Note("phase", {"name": phase.name})
        row = await self._transaction.fetchrow(
            self._means.sql.phase, *under(self.claim), phase.name, result, *lines(done)
        )
        if row is None:
            raise await self._transaction.why_not(fence_lost(self.claim))

    async def undo(self) -> None:
        """Undo the work that was done in it, and what that published. The claim is still held. Not for a claim that was
        taken over, which is undone with it."""
        await self._transaction.undo_work()

    async def finish(self, answer: Answer, state: State) -> None:
        """Store the answer of a local route and commit it with the work. FAILED_RETRY: that it was tried, and that
        the next one may try again; its answer is not kept."""
        await self._transaction.write_work()
        is_kept = state != "FAILED_RETRY"
        if isinstance(self._decision, Again | TakeOver) and self._decision.stored.effect == "outside":
            await self._transaction.fetchrow(self._means.sql.empty, self.claim.asked.key_hash)
        asked, route = self.claim.asked, self._route
        row = await self._transaction.fetchrow(
            self._means.sql.finish,
            *under(self.claim),
            _fence_seen(self._decision),
            asked.tenant,
            asked.route,
            asked.effect,
            state,
            asked.fingerprint,
            asked.fingerprint_version,
            self.claim.attempt,
            self._means.owner,
            None if is_kept else f"The handler answered {answer.status}.",
            answer.status if is_kept else None,
            json_text(answer.headers, what="A header") if is_kept else None,
            answer.body if is_kept else None,
            route.replay_for,
            route.replay_for + route.gone_for,
            *lines(self._claimed, settled(state, answer)),
        )
        if row is None:
            raise await self._transaction.why_not(fence_lost(self.claim))
        await self._transaction.commit()
        await failpoint("idempotency.stored")

    async def release(self) -> None:
        """Roll back: as if it had not been asked."""
        await self._transaction.end()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        await self.release()

    @property
    def _claimed(self) -> Note:
        what = {"route": self.claim.asked.route, "effect": self.claim.asked.effect, "attempt": self.claim.attempt}
        return Note("taken_over" if isinstance(self._decision, TakeOver) else "claimed", what)


class PhaseUnit:
    """One phase of a claim: its work and the record that it was done are one transaction, which ends with the fence.

    Set `result` to what the phase returns, as JSON; add to `notes` what is to be in the history with it."""

    def __init__(self, claim: Claim, name: str, transaction: OpenTransaction) -> None:
        self.tx = Tx(transaction)
        self.result: Any = None
        self.notes: list[Note] = []
        self._claim = claim
        self._name = name
        self._transaction = transaction

    async def commit(self, sql: Statements) -> None:
        result = json_text(self.result, what=f"The result of phase {self._name!r}")
        await self._transaction.write_work()
        done = Note("phase", {"name": self._name})
        try:
            row = await self._transaction.fetchrow(
                sql.phase, *under(self._claim), self._name, result, *lines(*self.notes, done)
            )
        except Exception as error:
            if sqlstate_of(error) == DUPLICATE:
                raise PhaseMisuse(
                    f"Phase {self._name!r} was done before: each phase of a request has a name of its own."
                ) from error
            raise
        if row is None:
            raise await self._transaction.why_not(fence_lost(self._claim))
        await self._transaction.commit()
        await failpoint("idempotency.phase_committed")


class Unclaimed:
    """A transaction for the work of a request that has no key: nothing is claimed, and nothing is remembered of it."""

    def __init__(self, transaction: OpenTransaction) -> None:
        self._transaction = transaction
        self.tx = Tx(transaction)

    async def commit(self) -> None:
        await self._transaction.write_work()
        await self._transaction.execute("SELECT 1")  # fails in an aborted transaction, where COMMIT would not
        await self._transaction.commit()

    async def release(self) -> None:
        """Roll back what was not committed. A second time nothing happens."""
        await self._transaction.end()


def under(claim: Claim) -> tuple[object, ...]:
    """What every statement about a claim begins with."""
    return claim.asked.key_hash, claim.fence, claim.created_at


def settled(state: State, answer: Answer) -> Note:
    """The line for what became of an attempt."""
    details = {"state": state, "status": answer.status, "bytes": len(answer.body)}
    return Note("failed" if state == "FAILED_RETRY" else "stored", details)


def fence_lost(claim: Claim) -> FenceLost:
    return FenceLost(
        f"The claim on {claim.asked.route} (attempt {claim.attempt}, fence {claim.fence}) is not the current one any "
        "more: its lease ran out and somebody else goes on with it, or has answered. Nothing of this was kept."
    )


def _fence_seen(decision: Claimable) -> int | None:
    return None if isinstance(decision, First) else decision.stored.fence


def lines(*notes: Note) -> tuple[list[str], list[str]]:
    """Lines of the history as the statements take them: what has happened, and the details of it."""
    return [note.what for note in notes], [json_text(dict(note.details), what="A history line") for note in notes]


def json_text(value: object, *, what: str) -> str:
    """As it is stored, for good: what cannot be read back as it was is refused."""
    try:
        return json.dumps(value, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        raise PhaseMisuse(
            f"{what} cannot be stored: {error}. It is kept as JSON: give it texts, whole numbers, lists and dicts."
        ) from None
