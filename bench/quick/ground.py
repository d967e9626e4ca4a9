"""What the measured processes run on: one Postgres, and in it a database for each tree and path.

The server logs every statement with its database and user. Counting lines of that log costs the measured process
nothing, and tells its statements from those of the bench, which is another user.
"""

import asyncio
import shutil
import socket
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg

from bench.quick.process import MeasuredProcess, last_lines
from bench.quick.trees import CannotMeasure
from surefoot.database.embedded import EmbeddedPostgres
from surefoot.log import EventLog, Publisher
from surefoot.log.opening import open_log

USER = "measured"
OPTIONS = {
    "fsync": "off",
    "autovacuum": "off",
    "log_statement": "all",
    "log_parameter_max_length": "0",
    "log_line_prefix": "<%d %u> ",
}
LOOK_S = 0.01
PATIENCE_S = 60.0
SHOWN_CHARACTERS = 100


@dataclass(frozen=True, slots=True)
class Reading:
    processor_ns: int
    log_bytes: int


@dataclass(frozen=True, slots=True)
class Usage:
    """What a process used between two readings."""

    processor_ns: int
    statements: Counter[str]


@dataclass(slots=True)
class Place:
    """One path of one tree: a database, the measured process on it, and the bench's own ways in."""

    database: str
    url: str
    """As the measured process connects."""
    port: int
    server_log: Path
    connection: Any
    """asyncpg has no types."""
    publisher: Publisher
    process: MeasuredProcess | None = None

    def read(self) -> Reading:
        assert self.process is not None
        return Reading(self.process.processor_ns(), self.server_log.stat().st_size)

    def used_since(self, before: Reading) -> Usage:
        after = self.read()
        statements = count_statements(self._logged(before.log_bytes, after.log_bytes), self.database)
        return Usage(after.processor_ns - before.processor_ns, statements)

    async def until(self, query: str, count: int) -> None:
        """Wait until the query counts so many."""
        assert self.process is not None
        deadline = time.perf_counter() + PATIENCE_S
        while (found := await self.connection.fetchval(query)) < count:
            self.process.check()
            if time.perf_counter() > deadline:
                raise CannotMeasure(
                    f"The {self.process.name} has done {found:,} of {count:,} after {PATIENCE_S:.0f} s. "
                    f"Its last lines:\n{last_lines(self.process.log.read_text(errors='replace'))}"
                )
            await asyncio.sleep(LOOK_S)

    def _logged(self, first: int, end: int) -> str:
        with self.server_log.open("rb") as log:
            log.seek(first)
            return log.read(end - first).decode(errors="replace")


def count_statements(logged: str, database: str) -> Counter[str]:
    """The statements that the measured process ran, by their text, from the server's log."""
    begins = f"<{database} {USER}> LOG:  "
    found: Counter[str] = Counter()
    for line in logged.replace("\n\t", " ").splitlines():
        kind, _, statement = line.removeprefix(begins).partition(": ")
        if line.startswith(begins) and kind.startswith(("execute", "statement")):
            found[" ".join(statement.split())[:SHOWN_CHARACTERS]] += 1
    return found


@contextmanager
def server() -> Iterator[tuple[EmbeddedPostgres, Path]]:
    """A Postgres in a temporary folder, and that folder, for whatever else is needed meanwhile."""
    folder = Path(tempfile.mkdtemp(prefix="surefoot-quick-"))
    folder.chmod(0o755)
    postgres = EmbeddedPostgres(folder / "postgres", OPTIONS)
    try:
        postgres.start()
        yield postgres, folder
    finally:
        postgres.stop(immediate=True)
        shutil.rmtree(folder, ignore_errors=True)


async def prepare_server(postgres: EmbeddedPostgres) -> None:
    password = postgres.url.partition("//postgres:")[2].partition("@")[0]
    await _execute(postgres, f"CREATE ROLE {USER} SUPERUSER LOGIN PASSWORD '{password}'")


async def create_database(postgres: EmbeddedPostgres, name: str, template: str = "template1") -> str:
    """Its URL for the measured process."""
    await _execute(postgres, f"CREATE DATABASE {name} TEMPLATE {template}")
    return _url(postgres, name).replace("//postgres:", f"//{USER}:")


@asynccontextmanager
async def place(postgres: EmbeddedPostgres, database: str, template: str) -> AsyncIterator[Place]:
    url = await create_database(postgres, database, template)
    log: EventLog = open_log(None, _url(postgres, database))
    publisher = await log.publisher()
    connection = await asyncpg.connect(_url(postgres, database))
    found = Place(database, url, _free_port(), postgres.directory / "data" / "server.log", connection, publisher)
    try:
        yield found
    finally:
        if found.process is not None:
            await found.process.end()
        await connection.close()
        await publisher.close()
        await log.close()


def _url(postgres: EmbeddedPostgres, database: str) -> str:
    return postgres.url.removesuffix("/postgres") + f"/{database}"


async def _execute(postgres: EmbeddedPostgres, statement: str) -> None:
    connection = await asyncpg.connect(postgres.url)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
