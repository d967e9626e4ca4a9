"""Relays for tests: in this process, or as a process of its own that can be killed and frozen."""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from surefoot.events import decode
from surefoot.log.port import EventLog, StoredRecord, TopicSpec
from surefoot.relay.runtime import Relay
from surefoot.relay.settings import RelaySettings
from surefoot.testing.checkers import Seen
from tests.support import processes
from tests.support.waiting import LONG_ENOUGH_S

# Everything compressed: a take-over takes two seconds instead of ten.
QUICK = {
    "lease": timedelta(seconds=2),
    "heartbeat": timedelta(milliseconds=400),
    "lock_timeout": timedelta(seconds=1),
    "retry_min": timedelta(milliseconds=50),
    "retry_max": timedelta(seconds=1),
    "max_attempts": 3,
    "housekeeping": timedelta(milliseconds=200),
}
DAY = timedelta(days=1)


@asynccontextmanager
async def relay_running(url: str, log: EventLog, **changes: object) -> AsyncIterator[Relay]:
    relay = Relay(url, log, RelaySettings(**{**QUICK, **changes}))  # type: ignore[arg-type]
    running = asyncio.create_task(relay.run())
    try:
        yield relay
    finally:
        relay.stop()
        await running


def spec(name: str, partitions: int = 8, max_record_bytes: int = 1024 * 1024) -> TopicSpec:
    return TopicSpec(name, partitions, DAY, max_record_bytes)


async def read_all(log: EventLog, topic: str) -> list[StoredRecord]:
    """Every record of a topic, as it is now."""
    ends = await log.end_offsets(topic)
    reader = await log.read(topic, dict.fromkeys(ends, 0))
    records: list[StoredRecord] = []
    reached = dict.fromkeys(ends, 0)
    try:
        while any(reached[where] < end for where, end in ends.items()):
            for where, batch in (await reader.poll(max_records=5000)).items():
                records.extend(batch)
                reached[where] = batch[-1].offset + 1
    finally:
        await reader.close()
    return records


def as_seen(records: Sequence[StoredRecord]) -> list[Seen]:
    seen = []
    for record in records:
        attributes = decode(record.headers, record.value, record.key).attributes
        seen.append(Seen(attributes["id"], attributes["partitionkey"], record.partition, record.offset))
    return seen


async def statuses(connection) -> dict[str, int]:  # type: ignore[no-untyped-def]
    rows = await connection.fetch("SELECT status, count(*) FROM surefoot.outbox_events GROUP BY 1")
    return dict(rows)


@dataclass(slots=True)
class RelayProcess:
    """A relay in a process of its own. Its log is kept, to be shown when a test fails."""

    process: processes.AsyncChild
    log: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    def signal(self, number: int) -> None:
        if self.process.returncode is None:
            os.kill(self.pid, number)

    async def ended(self, within_s: float = LONG_ENOUGH_S) -> int:
        """Wait for its end; the exit code, negative for a signal."""
        return await asyncio.wait_for(self.process.wait(), within_s)

    async def stopped(self, within_s: float = LONG_ENOUGH_S) -> None:
        """Wait until it has been frozen by SIGSTOP (its state in the process table says so)."""
        deadline = asyncio.get_running_loop().time() + within_s
        while self._state() != "T":
            assert self.process.returncode is None, f"it ended instead of stopping:\n{self.log.read_text()}"
            assert asyncio.get_running_loop().time() < deadline, f"it did not stop:\n{self.log.read_text()}"
            await asyncio.sleep(0.02)  # the process table calls nobody: look again

    def _state(self) -> str:
        return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0]


async def start_relay(
    url: str,
    kafka: str | None,
    log: Path,
    *,
    failpoints: str = "",
    weakened: str = "",
    environment: Mapping[str, str] | None = None,
) -> RelayProcess:
    """Start `surefoot relay`, or one with a protection taken out (see tests/support/weakened/relay.py)."""
    module = ["tests.support.weakened", "relay", weakened] if weakened else ["surefoot"]
    arguments = ["relay", "--database", url, *(["--kafka", kafka] if kafka else [])]
    ours = {**as_environment("SUREFOOT_RELAY", QUICK), "SUREFOOT_FAILPOINTS": failpoints, **(environment or {})}
    return await start_process([*module, *arguments], log, ours)


def as_environment(prefix: str, settings: Mapping[str, object]) -> dict[str, str]:
    """Settings as a process reads them."""
    return {
        f"{prefix}_{name.upper()}": f"PT{value.total_seconds()}S" if isinstance(value, timedelta) else str(value)
        for name, value in settings.items()
    }


async def start_process(command: Sequence[str], log: Path, environment: Mapping[str, str]) -> RelayProcess:
    """Start `python -m` with this command; what it prints goes to the end of `log`."""
    with log.open("ab") as output:
        process = await processes.start_async(
            command, environment={**os.environ, **environment}, stdout=output, stderr=output
        )
    return RelayProcess(process, log)
