"""What the crash tests of idempotent requests stand on: servers that are killed and frozen, a journal of what was sent
and answered, and what the checkers want to know, read from everybody's books.
"""

import asyncio
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count
from pathlib import Path

import asyncpg
import httpx

from tests.blackbox.idempotency.asking import Ask
from tests.blackbox.idempotency.reply import Reply
from tests.support.checkers.idempotency import Effect, Finding, KeyRow, Sent, check_idempotency
from tests.support.idempotency.crash_app import GATE, GATES, PROVIDER, SCHEMA
from tests.support.processes import end
from tests.support.relay.processes import RelayProcess, as_environment, start_process
from tests.support.waiting import LONG_ENOUGH_S, eventually

# Everything compressed: a process that is not heard of for 0.6 s loses its claim.
QUICK = {
    "lease": timedelta(milliseconds=600),
    "renew_every": timedelta(milliseconds=200),
    "longest_lease": timedelta(seconds=2),
    "grace": timedelta(milliseconds=100),
    "complete_every": timedelta(milliseconds=100),
    "retry_first": timedelta(milliseconds=200),
    "retry_longest": timedelta(seconds=1),
    "call_timeout": timedelta(milliseconds=1_500),
    "wait_in_flight": timedelta(milliseconds=500),
}
PATIENT = {"lease": "PT2M", "longest_lease": "PT5M", "call_timeout": "PT1M"}
"""For a story that says itself when a claim is lost (see lease_runs_out), however long the machine takes for it."""
REPLAY_HEADER = "X-Idempotency-Replayed"
BOOKS = {"/charges": ("provider", "ledger"), "/entries": ("ledger",)}
READY = "listening at "
STATES = """
    SELECT encode(k.key_hash, 'hex') AS key, k.state::text, c.key_hash IS NOT NULL AND c.closed_at IS NULL AS open
    FROM surefoot.idempotency_keys k LEFT JOIN surefoot.pending_calls c USING (key_hash)
"""
EMPTY = "DELETE FROM surefoot.idempotency_keys; TRUNCATE crash.calls, crash.charges, crash.entries"
EFFECTS = """
    SELECT mark, 'provider' AS where, number::text FROM crash.charges
    UNION ALL SELECT mark, 'ledger', number::text FROM crash.entries
"""


@dataclass(frozen=True, slots=True)
class ServerProcess:
    base_url: str
    started: RelayProcess | None = None
    """None: it is not this test's, which may not end it."""

    @property
    def handle(self) -> RelayProcess:
        assert self.started is not None
        return self.started


@dataclass
class Ground:
    url: str
    connection: asyncpg.Connection
    directory: Path
    other: ServerProcess | None = None
    """A server that goes on with what is abandoned, if one runs already."""
    started: list[RelayProcess] = field(default_factory=list)
    sent: list[Sent] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=count)

    # -- servers ------------------------------------------------------------------------------------------------------

    async def start(
        self,
        *,
        failpoints: str = "",
        weakened: str = "",
        provider: str = "key",
        completer: bool = False,
        **settings: str,
    ) -> ServerProcess:
        """`settings` in lower case and without the prefix: lease="PT5S"."""
        module = (
            ["tests.support.weakened", "idempotency", weakened] if weakened else ["tests.support.idempotency.crash_app"]
        )
        command = [*module, "--database", self.url, *(["--completer"] if completer else [])]
        changes = {f"SUREFOOT_IDEMPOTENCY_{name.upper()}": value for name, value in settings.items()}
        environment = {**as_environment("SUREFOOT_IDEMPOTENCY", QUICK), **changes, PROVIDER: provider,
                       "SUREFOOT_FAILPOINTS": failpoints}  # fmt: skip
        log = self.directory / f"server-{next(self.numbers)}.log"
        handle = await start_process(command, log, environment)
        self.started.append(handle)

        async def address() -> str:
            assert handle.process.returncode is None, log.read_text()
            lines = [line for line in log.read_text().splitlines() if line.startswith(READY)]
            return lines[0].removeprefix(READY) if lines else ""

        return ServerProcess(await eventually(address, what="the server listens"), handle)

    async def start_beside(self, one: dict[str, str]) -> tuple[ServerProcess, ServerProcess]:
        """One more, and the one that runs already."""
        assert self.other is not None
        return await self.start(**one), self.other  # type: ignore[arg-type]

    async def start_two(self, one: dict[str, str], other: dict[str, str]) -> tuple[ServerProcess, ServerProcess]:
        """At once; the second one goes on with what is abandoned."""
        first, second = await asyncio.gather(self.start(**one), self.start(completer=True, **other))  # type: ignore[arg-type]
        return first, second

    # -- clients ------------------------------------------------------------------------------------------------------

    async def send(self, server: ServerProcess, ask: Ask) -> Reply | None:
        """None if there is no answer: the connection broke."""
        key = str(ask.key)
        headers = {"Content-Type": ask.content_type, "Idempotency-Key": key}
        reply: Reply | None = None
        try:
            async with httpx.AsyncClient(base_url=server.base_url, timeout=60, trust_env=False) as client:
                response = await client.post(ask.path, content=ask.content(), headers=headers)
            reply = Reply.of(response, REPLAY_HEADER)
        except httpx.TransportError:
            self.sent.append(Sent(key, ask.mark, None))
        else:
            self.sent.append(Sent(key, ask.mark, reply.status, reply.headers, reply.body))
        return reply

    async def settled(self, server: ServerProcess, ask: Ask, within_s: float = LONG_ENOUGH_S) -> Reply:
        """Sent again and again, as a patient client does, until it is answered for good."""

        async def answered() -> Reply | None:
            reply = await self.send(server, ask)
            return reply if reply is not None and reply.status < 500 and reply.status != 409 else None

        found = await eventually(answered, what=f"{ask.path} is answered", within_s=within_s)
        assert found is not None
        return found

    # -- what holds requests up, and what hurries them ----------------------------------------------------------------

    @asynccontextmanager
    async def closed(self, gate: str) -> AsyncIterator[None]:
        """Requests that ask for this gate wait at it, until the end of the block."""
        where = (GATE, GATES[gate])
        await self.connection.execute("SELECT pg_advisory_lock($1, $2)", *where)
        try:
            yield
        finally:
            await self.connection.execute("SELECT pg_advisory_unlock($1, $2)", *where)

    async def waiting_at(self, gate: str) -> int:
        asked = """
            SELECT count(*) FROM pg_locks
            WHERE locktype = 'advisory' AND classid = $1 AND objid = $2 AND NOT granted"""
        return int(await self.connection.fetchval(asked, GATE, GATES[gate]))

    async def lease_runs_out(self) -> None:
        """Of each request that is in flight: its process has ended, or is frozen."""
        late = (
            "UPDATE surefoot.idempotency_keys SET lease_until = now() - interval '1 minute' WHERE state = 'IN_FLIGHT'"
        )
        await self.connection.execute(late)

    # -- what became of it --------------------------------------------------------------------------------------------

    async def called(self, ask: Ask, times: int = 1) -> None:
        """Wait until the provider has done what it was called for, so many times."""
        counted = "SELECT count(*) FROM crash.calls WHERE mark = $1"

        async def has_been() -> bool:
            return bool(await self.connection.fetchval(counted, ask.mark) >= times)

        await eventually(has_been, what=f"the provider is called {times} times")

    async def at_rest(self, within_s: float = LONG_ENOUGH_S) -> None:
        """Wait until nothing is open any more."""

        async def has_come_to_rest() -> bool:
            return not [row for row in await self.connection.fetch(STATES) if row["state"] in _OPEN or row["open"]]

        try:
            await eventually(has_come_to_rest, what="every key comes to an end", within_s=within_s)
        except AssertionError as late:
            raise AssertionError(f"{late}\n{self.logs()}") from late

    async def outlives_a_lease(self) -> None:
        """Wait until the lease that the request has now would have run out, and the completer has looked for it."""
        ends = await self.connection.fetchval("SELECT max(lease_until) FROM surefoot.idempotency_keys")

        async def has_passed() -> bool:
            return bool(await self.connection.fetchval("SELECT now() > $1::timestamptz + interval '1 second'", ends))

        await eventually(has_passed, what="the first lease would have run out")
        await self.completer_looks()

    async def stays_abandoned(self) -> None:
        """Look that no process takes over what lease_runs_out has given free, though a completer looks for it."""
        for _ in range(5):
            await self.completer_looks()
        is_free = "SELECT lease_until < now() - interval '30 seconds' FROM surefoot.idempotency_keys"
        assert await self.connection.fetchval(is_free), f"a process has taken it over\n{self.logs()}"

    async def completer_looks(self) -> None:
        """Wait until the completer looks, once more, for what was abandoned."""
        now = await self.connection.fetchval("SELECT clock_timestamp()")
        asked = """
            SELECT count(*) FROM pg_stat_activity
            WHERE datname = current_database() AND query LIKE $1 AND query_start > $2 AND state = 'idle'"""

        async def has_looked() -> bool:
            return bool(await self.connection.fetchval(asked, "%ORDER BY coalesce(due_at, lease_until)%", now))

        await eventually(has_looked, what="the completer looks for what was abandoned")

    async def findings(self, path: str) -> list[Finding]:
        effects = [Effect(*row) for row in await self.connection.fetch(EFFECTS)]
        rows = [KeyRow(*row) for row in await self.connection.fetch(STATES)]
        return check_idempotency(self.sent, effects, rows, books=BOOKS[path])

    async def violations(self, path: str) -> set[str]:
        return {finding.violation for finding in await self.findings(path)}

    async def counts(self, ask: Ask) -> dict[str, int]:
        rows = await self.connection.fetch(EFFECTS)
        return {where: sum(row[:2] == (ask.mark, where) for row in map(tuple, rows)) for where in BOOKS[ask.path]}

    def logs(self) -> str:
        return "\n".join(f"--- {one.log.name} ({one.pid})\n{one.log.read_text()[-3000:]}" for one in self.started)


_OPEN: Collection[str] = ("IN_FLIGHT", "FAILED_RETRY")


@asynccontextmanager
async def laid(url: str, directory: Path, other: ServerProcess | None = None) -> AsyncIterator[Ground]:
    """On a database that may have been used before, and where the `other` server, if there is one, is at rest."""
    connection = await asyncpg.connect(url)
    await connection.execute(f"{SCHEMA}; {EMPTY}")
    ground = Ground(url, connection, directory, other)
    try:
        yield ground
    finally:
        await end(*(one.process for one in ground.started))
        await connection.close()
