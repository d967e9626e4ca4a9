"""The API of the crash tests with one protection of the layer taken out, to show that they would notice.

Each function below undoes one protection, as a plausible mistake would, and nothing else.
"""

import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from surefoot.failpoints import failpoint
from surefoot.idempotency import deciding
from surefoot.idempotency.http.middleware import Exchange
from surefoot.idempotency.request.attempt import Lease
from surefoot.idempotency.request.idempotent import Mint
from surefoot.idempotency.store import store
from surefoot.idempotency.store.claims import Begun
from surefoot.idempotency.store.statements import BEGIN, MINE, Statements
from surefoot.idempotency.store.store import Store
from surefoot.idempotency.values import Answer, Asked, Claim, State
from tests.support.idempotency.crash_app import main as main
from tests.support.weakened.statements import change_statement


def put(where: Any, name: str, instead: Any) -> None:
    assert hasattr(where, name)
    setattr(where, name, instead)


def lock() -> None:
    """Whoever asks for the key's lock gets it."""
    anybody = store.begin

    def begin(number: int, *, savepoint: bool) -> str:
        return anybody(uuid.uuid4().int % 2**62, savepoint=savepoint)

    put(store, "begin", begin)


def unique_claim() -> None:
    """A claim is written over one that is there already."""
    change_statement(Statements, "keep", "WHERE k.fence = $4::bigint AND k.state <> 'IN_FLIGHT'", "")


def lock_and_unique_claim() -> None:
    lock()
    unique_claim()


def fingerprint() -> None:
    """Nobody asks whether it is the same request."""
    real = deciding.decide

    def decide(stored: Any, asked: Asked, *rest: Any, **more: Any) -> Any:
        same = asked if stored is None else replace(asked, fingerprint=stored.fingerprint)
        return real(stored, same, *rest, **more)

    put(store, "decide", decide)


# -- what is kept with it --------------------------------------------------------------------------------------------


def minted_values() -> None:
    """Ids and times are made and not kept, and nobody minds if they are made again later."""
    real = Begun.keep

    async def keep(self: Begun, minted: Mapping[str, Any], resource: str | None, *rest: Any) -> Claim:
        return replace(await real(self, {}, None, *rest), minted=minted)

    put(Begun, "keep", keep)
    setattr(Mint, "is_closed", property(lambda _: False, lambda *_: None))  # noqa: B010 - not there before


def provider_key() -> None:
    """Whoever goes on with a request makes a key of their own for the provider."""
    _changed_when_taken_over(provider_key=lambda: uuid.uuid4().hex)


def finished_phases() -> None:
    """Whoever goes on with a request does not ask what is done already, and the record of that is no obstacle."""
    _changed_when_taken_over(phases=dict)
    change_statement(Statements, "phase", "SELECT key_hash, $4::text, $5::text::json FROM kept",
                     "SELECT key_hash, $4::text, $5::text::json FROM kept ON CONFLICT DO NOTHING")  # fmt: skip


def _changed_when_taken_over(**made: Callable[[], Any]) -> None:
    real = deciding.taken_over

    def taken_over(*args: Any) -> Claim:
        return replace(real(*args), **{name: make() for name, make in made.items()})

    put(store, "taken_over", taken_over)


# -- while it is held, and how it ends -------------------------------------------------------------------------------


def fence() -> None:
    """Whoever has had a claim may write, whoever has it by now."""
    anybody = "key_hash = $1::bytea AND $2::bigint IS NOT NULL AND $3::timestamptz IS NOT NULL"
    for name in ("phase", "complete", "fail"):
        change_statement(Statements, name, MINE, anybody)


def renewal() -> None:
    """A lease is not renewed, however long the work takes."""

    async def renew(self: Lease) -> None:
        return None

    put(Lease, "_renew", renew)


def answer_before_sending() -> None:
    """The answer is stored when it has been sent."""
    complete, sent = Store.complete, Exchange._sent
    unstored: list[Callable[[], Awaitable[None]]] = []

    async def remember(self: Store, *what: Any) -> None:
        unstored.append(partial(complete, self, *what))

    async def sent_and_stored(self: Exchange, *what: Any) -> None:
        await sent(self, *what)
        while unstored:
            await unstored.pop()()

    put(Store, "complete", remember)
    put(Exchange, "_sent", sent_and_stored)


def one_transaction() -> None:
    """The work of a local route is committed first, and its answer after that."""
    real = Begun.finish

    async def finish(self: Begun, answer: Answer, state: State) -> None:
        await self._transaction.write_work()
        await self._transaction.execute("COMMIT")
        await failpoint("idempotency.stored")
        await self._transaction.execute(BEGIN)
        await real(self, answer, state)

    put(Begun, "finish", finish)


def completer() -> None:
    """Nobody looks for what was abandoned."""
    change_statement(Statements, "overdue", "WHERE", "WHERE false AND")


PROTECTIONS: dict[str, Callable[[], None]] = {
    one.__name__: one
    for one in (
        lock,
        unique_claim,
        lock_and_unique_claim,
        fingerprint,
        minted_values,
        provider_key,
        finished_phases,
        fence,
        renewal,
        answer_before_sending,
        one_transaction,
        completer,
    )
}
