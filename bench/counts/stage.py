"""What a walk runs on: a database of one tree, and processes of that tree that record the files they run in."""

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import asyncpg
import httpx

from bench.quick.ground import PATIENCE_S, create_database
from bench.quick.process import SETTINGS, last_lines
from bench.quick.trees import CannotMeasure, Tree
from surefoot.database.embedded import EmbeddedPostgres
from surefoot.process_guard import create_guarded_process

RUNNER = Path(__file__).with_name("traced.py")
LOOK_S = 0.05
Mode = Literal["from-start", "on-signal"]
QUICK_SETTINGS = {
    "SUREFOOT_RELAY_POLL_MIN": "PT0.02S",
    "SUREFOOT_RELAY_POLL_MAX": "PT0.1S",
    "SUREFOOT_ORCHESTRATOR_TIMER_POLL": "PT0.1S",
    "SUREFOOT_DLQ_HOUSEKEEPING": "PT1H",
}
"""Unlike `make bench-quick`, a walk waits for one event at a time; what is done beside it is no part of it."""


@dataclass(slots=True)
class Recorded:
    """A process, and where it writes the files it ran in."""

    name: str
    process: asyncio.subprocess.Process
    record: Path
    log: Path

    def begin(self) -> None:
        self.process.send_signal(signal.SIGUSR1)

    async def end(self) -> set[str]:
        self.process.send_signal(signal.SIGUSR1)
        deadline = time.monotonic() + PATIENCE_S
        while not self.record.exists():
            if time.monotonic() > deadline:
                raise self.failed("has written no record")
            await asyncio.sleep(LOOK_S)
        found: set[str] = set(json.loads(self.record.read_text()))
        self.record.unlink()
        return found

    def failed(self, how: str) -> CannotMeasure:
        return CannotMeasure(f"{self.name} {how}. Its last lines:\n{last_lines(self.log.read_text())}")


@dataclass(slots=True)
class Stage:
    tree: Tree
    folder: Path
    url: str
    connection: Any
    """asyncpg has no types."""
    opened: AsyncExitStack
    started: list[Recorded] = field(default_factory=list)

    async def start(self, name: str, *command: str) -> Recorded:
        """Start `python -m command…`; it records between `begin` and `end`."""
        found = await self._launch(name, "on-signal", command)
        self.opened.push_async_callback(_stop, found.process)
        self.started.append(found)
        return found

    async def run(self, name: str, *command: str) -> tuple[str, set[str]]:
        """Run it to its end: what it printed, and the files that it ran in."""
        mode: Mode = "on-signal" if command[0] == "walk_workload" else "from-start"
        found = await self._launch(name, mode, command)
        if await found.process.wait():
            raise found.failed("failed")
        return found.log.read_text(), set(json.loads(found.record.read_text()))

    async def recorded(self, work: Awaitable[None], processes: Iterable[Recorded]) -> set[str]:
        """The files that these processes ran in while the work was done."""
        chosen = list(processes)
        for one in chosen:
            one.begin()
        await work
        found: set[str] = set()
        for one in chosen:
            found |= await one.end()
        return found

    async def until(self, query: str, *arguments: object) -> Any:
        """Wait until the query finds something."""
        deadline = time.monotonic() + PATIENCE_S
        while not (found := await self.connection.fetchval(query, *arguments)):
            for one in self.started:
                if one.process.returncode is not None:
                    raise one.failed("ended")
            if time.monotonic() > deadline:
                logs = "\n".join(str(one.failed("waits")) for one in self.started)
                raise CannotMeasure(f"After {PATIENCE_S:.0f} s this finds nothing: {query}\n{logs}")
            await asyncio.sleep(LOOK_S)
        return found

    async def _launch(self, name: str, mode: Mode, command: Sequence[str]) -> Recorded:
        number = len(list(self.folder.glob("*.log")))
        log, record = (self.folder / f"{number}-{name}.{suffix}" for suffix in ("log", "json"))
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("SUREFOOT_") and k != "PYTHONPATH"}
        with log.open("wb") as output:
            process = await create_guarded_process(
                *[sys.executable, "-P", str(RUNNER), str(self.tree.root), str(self.tree.metadata), str(record), mode],
                *command,
                cwd=self.tree.metadata,
                env={**inherited, **SETTINGS, **QUICK_SETTINGS, "SUREFOOT_DATABASE": self.url},
                stdout=output,
                stderr=output,
            )
        return Recorded(name, process, record, log)


@asynccontextmanager
async def stage(postgres: EmbeddedPostgres, tree: Tree, name: str, folder: Path) -> AsyncIterator[Stage]:
    """A new database with the tree's tables and the topics of the walks."""
    own = folder / name
    own.mkdir()
    url = await create_database(postgres, f"walk_{name}")
    async with AsyncExitStack() as opened:
        connection = await asyncpg.connect(url)
        opened.push_async_callback(connection.close)
        found = Stage(tree, own, url, connection, opened)
        await found.run("migrate", "surefoot", "migrate")
        await found.run("topics", "surefoot", "topics", "create", "--catalogue", "walk_workload:catalogue")
        await connection.execute("CREATE TABLE walk_broken (id text); CREATE TABLE walk_handled (id text)")
        yield found


async def served(url: str, process: Recorded) -> None:
    """Wait until the process answers, with any status."""
    async with httpx.AsyncClient(trust_env=False) as client:

        async def answers() -> bool:
            try:
                await client.get(url)
            except httpx.TransportError:
                return False
            return True

        deadline = time.monotonic() + PATIENCE_S
        while not await answers():
            if process.process.returncode is not None or time.monotonic() > deadline:
                raise process.failed("does not serve")
            await asyncio.sleep(LOOK_S)


async def _stop(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.kill()
    await process.wait()
