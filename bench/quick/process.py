"""A process that runs the code of one tree, in the virtual environment of the bench."""

import asyncio
import os
import re
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.quick.trees import CannotMeasure, Tree
from surefoot.process_guard import create_guarded_process

RUNNER = Path(__file__).with_name("measured.py")
ANSWER_S = 20.0
SHOWN_LINES = 15
# What a process does by the clock is no part of a unit of work, so it happens rarely. Batches are small enough that a
# batch more or less by chance does not show, and do not adapt to how fast the machine is at the moment.
SETTINGS = {
    "SUREFOOT_LOG_LEASE": "PT3M",
    "SUREFOOT_RELAY_LEASE": "PT3M",
    "SUREFOOT_RELAY_HEARTBEAT": "PT1M",
    "SUREFOOT_RELAY_HOUSEKEEPING": "PT1H",
    "SUREFOOT_RELAY_POLL_MIN": "PT1S",
    "SUREFOOT_RELAY_POLL_MAX": "PT1S",
    "SUREFOOT_RELAY_LANES": "1",
    "SUREFOOT_RELAY_BATCH_ROWS": "400",
    "SUREFOOT_CONSUMER_HOUSEKEEPING": "PT1H",
    "SUREFOOT_CONSUMER_COMMIT_INTERVAL": "PT1H",
    "SUREFOOT_CONSUMER_CONCURRENCY": "1",
    "SUREFOOT_CONSUMER_BATCH_TIME": "PT10S",
    "SUREFOOT_CONSUMER_BATCH_FIRST": "50",
    "SUREFOOT_CONSUMER_BATCH_RECORDS": "50",
    "SUREFOOT_ORCHESTRATOR_HOUSEKEEPING": "PT1H",
    "SUREFOOT_ORCHESTRATOR_TIMER_POLL": "PT1M",
    "PYTHONHASHSEED": "0",
}


@dataclass(slots=True)
class MeasuredProcess:
    name: str
    process: asyncio.subprocess.Process
    line: socket.socket
    log: Path

    def processor_ns(self) -> int:
        """User and system time of all its threads so far, in nanoseconds."""
        return self._ask(b"?")

    def switch_counting(self) -> int:
        """Begin to count calls, or stop; then it is how many there were."""
        return self._ask(b"c")

    def _ask(self, what: bytes) -> int:
        try:
            self.line.sendall(what)
            said = self.line.recv(32)
        except OSError:
            said = b""
        if not said:
            raise failed(self.name, self.log)
        return int(said)

    def check(self) -> None:
        if self.process.returncode is not None:
            raise failed(self.name, self.log)

    async def end(self) -> None:
        """At once: its database goes with it."""
        self.line.close()
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()


async def start(tree: Tree, name: str, command: Sequence[str], folder: Path) -> MeasuredProcess:
    """Start `python -m command…` with the tree's own modules; `folder` gets its output."""
    ours, its = socket.socketpair()
    ours.settimeout(ANSWER_S)
    log = folder / f"{tree.side}-{name}.log"
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("SUREFOOT_") and k != "PYTHONPATH"}
    with its, log.open("ab") as output:
        process = await create_guarded_process(
            *[sys.executable, "-P", str(RUNNER), str(tree.root), str(tree.metadata), str(its.fileno()), *command],
            cwd=tree.metadata,  # some folder that has no modules: commands put it on the import path
            env={**inherited, **SETTINGS},
            pass_fds=[its.fileno()],
            stdout=output,
            stderr=output,
        )
    return MeasuredProcess(f"{name} of the {tree.side}", process, ours, log)


async def run(tree: Tree, name: str, command: Sequence[str], folder: Path) -> None:
    """Run it to its end."""
    started = await start(tree, name, command, folder)
    try:
        if await started.process.wait():
            raise failed(started.name, started.log)
    finally:
        await started.end()


def failed(name: str, log: Path) -> CannotMeasure:
    said = log.read_text(errors="replace")
    missing = re.findall(r"No module named '([^']+)'", said)
    if missing:
        return CannotMeasure(
            f"{name} needs the module {missing[-1]}, which is neither in that tree nor in the virtual environment. "
            "Install it there, or compare with a later commit."
        )
    return CannotMeasure(f"{name} ended, or does not answer. Its last lines:\n{last_lines(said)}")


def last_lines(said: str) -> str:
    return "\n".join(said.splitlines()[-SHOWN_LINES:])
