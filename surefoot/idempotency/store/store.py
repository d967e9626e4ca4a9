"""The store of idempotency keys, in Postgres: claims, phases and answers, each change under its fence.

Every time is the database's. What a caller is told is durable: there is no answer from here before its COMMIT.
"""

import os
import secrets
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Self

import structlog

from surefoot.database.schema import DEFAULT_SCHEMA
from surefoot.errors import ConfigurationError, DatabaseRefused
from surefoot.events.text import printable
from surefoot.failpoints import failpoint
from surefoot.idempotency.deciding import (
    Again,
    First,
    TakeOver,
    asked_for,
    behind_lock,
    claim_of,
    decide,
    stored_key,
    taken_over,
)
from surefoot.idempotency.settings import IdempotencySettings, Route
from surefoot.idempotency.store.claims import (
    Begun,
    Means,
    PhaseUnit,
    Unclaimed,
    fence_lost,
    json_text,
    lines,
    settled,
    under,
)
from surefoot.idempotency.store.encryption import Encryption
from surefoot.idempotency.store.sealing import LONG_S, Sealing
from surefoot.idempotency.store.seals import Verified
from surefoot.idempotency.store.statements import BEGIN, MARK, WORK, Statements
from surefoot.idempotency.store.transaction import WAIT_S, Connections, OpenTransaction, opened
from surefoot.idempotency.values import (
    Answer,
    Asked,
    Claim,
    Found,
    InFlight,
    Mismatch,
    Note,
    State,
    StoreAway,
    StoredRequest,
)
from surefoot.outbox import Outbox

log = structlog.get_logger("surefoot.idempotency")
ERROR_LIMIT = 2000
MOST_ATTEMPTS = Route().attempts
NO_GRACE = timedelta(0)
REFUSED = '{"why":"key-reused"}'


@dataclass(frozen=True, slots=True)
class Standing:
    """How things stand: two numbers, each from a small index."""

    stuck: int
    """Keys in flight whose lease ran out more than a minute ago: nobody went on with them."""
    oldest_pending_s: float
    """The age of the oldest call that somebody has to get an answer to; 0 if there is none."""


class Store:
    def __init__(
        self,
        url: str,
        settings: IdempotencySettings,
        *,
        schema: str = DEFAULT_SCHEMA,
        pool_size: int = 20,
        name: str = "surefoot idempotency",
        wait_s: float = WAIT_S,
    ) -> None:
        self._settings = settings
        self._sql = Statements(schema)
        self._outbox = Outbox(schema)
        self._connections = Connections(url, name=name, size=pool_size, longest=settings.longest_lease, wait_s=wait_s)
        owner = f"{socket.gethostname()[:24]}-{os.getpid()}-{secrets.token_hex(3)}"
        self._sealing = Sealing(self._connections, self._sql, longest=settings.longest_lease)
        self._means = Means(self._sql, Encryption(settings.secrets), owner, settings.lease)

    async def open(self) -> None:
        """Whether the database can be reached and has been migrated. May be called again."""
        async with self._connections.driver() as driver:
            await driver.fetchval(self._sql.current, b"")

    async def close(self) -> None:
        await self._connections.close()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # -- claiming -----------------------------------------------------------------------------------------------------

    async def begin(self, asked: Asked, route: Route) -> Begun | Found:
        """Claim the key, in a transaction that is left open; or what was found under it."""
        if asked.effect == "outside":
            self._means.encryption.require()
        await failpoint("idempotency.before_claim")
        beginning = begin(lock_number(asked.key_hash), savepoint=True)
        transaction = await opened(self._connections, self._outbox, beginning, is_new=True)
        try:
            found = await self._begun(transaction, asked, route)
        except BaseException:
            await transaction.end()
            raise
        if not isinstance(found, Begun):
            transaction.end_later()
        if isinstance(found, Mismatch):
            self._connections.later(self._refused(asked))
        return found

    async def _begun(self, transaction: OpenTransaction, asked: Asked, route: Route) -> Begun | Found:
        row = await transaction.fetchrow(self._sql.found, asked.key_hash)
        assert row is not None  # it has one, whatever is there
        decision = decide(stored_key(row), asked, row["now"], most_attempts=route.attempts)
        decision = behind_lock(decision, had=row["had"], lease_s=self._settings.lease.total_seconds())
        if not isinstance(decision, First | Again | TakeOver):
            return decision
        claim = claim_of(decision, asked, row["now"])
        if isinstance(decision, TakeOver) and asked.effect == "outside":
            taken = await self._taken_over(transaction, asked, decision)
            if taken is None:
                return InFlight(self._settings.lease.total_seconds())
            claim = taken
        return Begun(self._means, route, decision, claim, transaction)

    async def _taken_over(self, transaction: OpenTransaction, asked: Asked, decision: TakeOver) -> Claim | None:
        row = await transaction.fetchrow(
            self._sql.take_over, asked.key_hash, decision.stored.fence, self._means.owner, self._means.lease
        )
        if row is None:  # whoever had it lives after all, or the completer was faster
            return None
        so_far = await transaction.fetchrow(self._sql.so_far, asked.key_hash)
        assert so_far is not None
        return taken_over(row, so_far, asked)

    async def look(self, asked: Asked) -> Found | None:
        """What is there, for whoever waits. None: it can be claimed."""
        async with self._connections.driver() as driver:
            row = await driver.fetchrow(self._sql.look, asked.key_hash, lock_number(asked.key_hash))
        assert row is not None
        decision = decide(stored_key(row), asked, row["now"])
        decision = behind_lock(decision, had=row["had"], lease_s=self._settings.lease.total_seconds())
        return None if isinstance(decision, First | Again | TakeOver) else decision

    async def _refused(self, asked: Asked) -> None:
        """That somebody used the key for another request is worth a line; nobody waits for it."""
        try:
            async with self._connections.driver() as driver:
                await driver.execute(self._sql.note, asked.key_hash, asked.tenant, 0, "refused", REFUSED, 0)
        except (StoreAway, DatabaseRefused):
            log.warning("a refused request is missing in the history: the store is away", route=asked.route)

    async def unclaimed(self) -> Unclaimed:
        """A transaction for a request without a key."""
        return Unclaimed(await opened(self._connections, self._outbox, BEGIN, is_new=True))

    # -- while it is held ---------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def phase(self, claim: Claim, name: str) -> AsyncIterator[PhaseUnit]:
        """A transaction for one phase: committed with its result when the block ends, unless the fence has risen."""
        transaction = await opened(self._connections, self._outbox, BEGIN)
        try:
            unit = PhaseUnit(claim, name, transaction)
            yield unit
            await unit.commit(self._sql)
        finally:
            await transaction.end()

    async def renew(self, claim: Claim) -> bool:
        """Say that it is still worked on. False: it is somebody else's by now, or was held as long as it may be."""
        longest = self._settings.longest_lease
        async with self._connections.driver() as driver:
            return await driver.fetchval(self._sql.renew, *under(claim), self._settings.lease, longest) is not None

    async def note(self, claim: Claim, note: Note) -> None:
        """A line of the history by itself. It says what has happened, so it needs no fence."""
        (what,), (details,) = lines(note)
        calls = 1 if note.what == "called" else 0
        async with self._connections.driver() as driver:
            await driver.execute(
                self._sql.note, claim.asked.key_hash, claim.asked.tenant, claim.fence, what, details, calls
            )

    # -- how it ends --------------------------------------------------------------------------------------------------

    async def complete(self, claim: Claim, answer: Answer, state: State, notes: Sequence[Note] = ()) -> None:
        """Store the answer and close the pending call. It is durable when this returns."""
        if state not in ("COMPLETED", "FAILED_TERMINAL"):
            raise ConfigurationError(
                f"An answer is stored as COMPLETED or FAILED_TERMINAL, not as {state}: see fail()."
            )
        headers = json_text(answer.headers, what="A header")
        await self._settle(
            claim,
            self._sql.complete,
            state,
            answer.status,
            headers,
            answer.body,
            *lines(*notes, settled(state, answer)),
        )
        await failpoint("idempotency.stored")

    async def fail(
        self,
        claim: Claim,
        *,
        error: str,
        unknown: bool,
        retry_in: timedelta | None,
        most_attempts: int = MOST_ATTEMPTS,
        notes: Sequence[Note] = (),
    ) -> bool:
        """Give the claim up: whoever comes next goes on with it, the completer after `retry_in`. None: it does not,
        because nothing was begun that would have to be finished.

        True: it was tried as often as it may be, and people have to be told."""
        said = Note("failed", {"unknown": unknown})
        return bool(
            await self._settle(
                claim,
                self._sql.fail,
                printable(error, ERROR_LIMIT),
                unknown,
                retry_in,
                most_attempts,
                *lines(*notes, said, Note("exhausted", {"attempts": claim.attempt})),
            )
        )

    async def forget(self, claim: Claim) -> bool:
        """Nothing was done: the row goes, and the key is new. False: an earlier attempt has done something, or may
        have, so it is kept as one that failed."""
        forgotten = lines(Note("forgotten"))
        async with self._connections.driver() as driver:
            if await driver.fetchval(self._sql.forget, *under(claim), *forgotten) is not None:
                return True
        await self.fail(claim, error="This attempt did nothing.", unknown=False, retry_in=self._settings.retry_first)
        return False

    async def _settle(self, claim: Claim, statement: str, *values: object) -> object:
        async with self._connections.driver() as driver:
            row = await driver.fetchrow(statement, *under(claim), *values)
        if row is None:
            raise fence_lost(claim)
        return row[0]

    # -- for the completer --------------------------------------------------------------------------------------------

    async def overdue(self, limit: int, grace: timedelta) -> list[bytes]:
        """Keys that somebody has to go on with: whoever had them has not been heard of, or their rest is over."""
        async with self._connections.driver() as driver:
            return [row["key_hash"] for row in await driver.fetch(self._sql.overdue, limit, grace)]

    async def take_over(self, key_hash: bytes, grace: timedelta = NO_GRACE) -> tuple[Claim, StoredRequest] | None:
        """Claim an abandoned request, to make it again. None: somebody else has, or it is not abandoned any more.

        However often it was tried: the claim says so, and the route how often it may be."""
        transaction = await opened(self._connections, self._outbox, begin(lock_number(key_hash), savepoint=False))
        try:
            row = await transaction.fetchrow(
                self._sql.take_over_overdue, key_hash, grace, self._means.owner, self._means.lease
            )
            if row is None:
                return None
            so_far = await transaction.fetchrow(self._sql.so_far, key_hash)
            assert so_far is not None
            request = self._means.encryption.decrypted(row["request"])
            await transaction.commit()
            return taken_over(row, so_far, asked_for(key_hash, row)), request
        finally:
            await transaction.end()

    # -- for the housekeeping -----------------------------------------------------------------------------------------

    async def standing(self) -> Standing:
        """What is stuck, and how long the oldest call has been without an answer."""
        async with self._connections.driver() as driver:
            row = await driver.fetchrow(self._sql.standing)
        assert row is not None
        return Standing(row[0], row[1] or 0.0)

    async def expire(self, batch: int) -> int:
        """Remove the answers that are given again no longer; how many those were."""
        async with self._connections.driver(LONG_S) as driver:
            return int(await driver.fetchval(self._sql.expire, batch))

    async def reap(self, batch: int) -> int:
        """Delete the keys that are new again; how many those were."""
        async with self._connections.driver(LONG_S) as driver:
            return int(await driver.fetchval(self._sql.reap, batch))

    async def seal(self) -> int:
        """Seal the oldest lines of the history that are not sealed; how many those were."""
        return await self._sealing.seal()

    async def verify_history(self, *, keep: timedelta | None = None, head: tuple[int, str] | None = None) -> Verified:
        """Whether the history is as it was sealed. Lines older than `keep` (None: than the settings say) may have been
        removed; `head` is a seal that was written down elsewhere."""
        return await self._sealing.verify(keep=keep or self._settings.keep_history, head=head)

    async def prune_history(self, keep: timedelta, batch: int) -> int:
        """Remove sealed lines older than that, until about `batch` are gone; how many those were."""
        return await self._sealing.prune(keep=keep, batch=batch)


def begin(lock: int, *, savepoint: bool) -> str:
    """Begin, try to lock the key, and say in the transaction whether it worked: one message to the server.

    The lock comes before the statement that looks, so that what the last one to hold it has committed is seen; and
    before the savepoint, so that it outlives the work being undone."""
    last = f"; SAVEPOINT {WORK}" if savepoint else ""
    return (
        "BEGIN ISOLATION LEVEL READ COMMITTED; "
        f"SELECT set_config('{MARK}', pg_try_advisory_xact_lock({lock:d})::text, true){last}"
    )


def lock_number(key_hash: bytes) -> int:
    """The key's advisory lock. The hash is one already, so its first bytes will do."""
    return int.from_bytes(key_hash[:8], "big", signed=True)
