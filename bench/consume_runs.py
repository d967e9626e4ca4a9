"""One contender, in a process of its own, working off one topic: how fast, and whether all of it took effect.

Starting up is in no figure: the clock starts when the first events are worked off. Ours is watched from outside, by the
offsets it stores; the baselines store none that could be asked cheaply, so they time themselves.
"""

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from bench.consume_tables import HOT_ROWS, STOCK
from bench.ground import Ground
from surefoot.errors import SurefootError
from surefoot.process_guard import create_guarded_process

HERE = Path(__file__).parent.parent
LOOK_S = 0.05
START_S = 60.0
PATIENCE_S = 60.0
"""A consumer of ours that takes longer has the rate of what it has done until then."""
LEAVE_S = 20.0


@dataclass(frozen=True, slots=True)
class Run:
    name: str
    consumer: str
    topic: str
    warm: int
    events: int
    """All that are in the topic, the ones to get warm with, too."""


class Pace(NamedTuple):
    per_s: float
    done: int


@dataclass(slots=True)
class Working:
    """A consumer at work, seen from outside."""

    where: Ground
    run: Run
    process: asyncio.subprocess.Process
    log: Path

    async def done(self) -> int:
        if self.process.returncode is not None:
            raise _ended(self.run, self.log)
        # An event that was parked is behind the offset, and not done yet.
        found = await self.where.connection.fetchval(
            "SELECT coalesce(sum(next_offset), 0)::bigint "
            "- (SELECT count(*) FROM surefoot.parked_events WHERE consumer = $1) "
            "FROM surefoot.consumer_partitions WHERE consumer = $1",
            self.run.consumer,
        )
        return int(found)

    async def until(self, events: int, limit_s: float) -> int:
        """How many are done once `events` are, or the time is up."""
        deadline = time.perf_counter() + limit_s
        while True:
            done = await self.done()
            if done >= events or time.perf_counter() > deadline:
                return done
            await asyncio.sleep(LOOK_S)


@asynccontextmanager
async def working(where: Ground, run: Run, log: Path) -> AsyncIterator[Working]:
    with log.open("ab") as output:
        process = await create_guarded_process(
            *[sys.executable, "-m", "surefoot", "consume", f"bench.consume_handlers:{run.name}"],
            *["--kafka", where.kafka, "--database", where.url],
            cwd=HERE,
            env={**os.environ, "BENCH_CONSUMER": run.consumer, "BENCH_TOPIC": run.topic},
            stdout=output,
            stderr=output,
        )
    try:
        yield Working(where, run, process, log)
    finally:
        await _end(process)


async def ours(where: Ground, run: Run, log: Path) -> Pace:
    async with working(where, run, log) as seen:
        before = await seen.until(run.warm, START_S)
        began = time.perf_counter()
        done = await seen.until(run.events, PATIENCE_S)
        took = time.perf_counter() - began
    if before == run.events:
        raise SurefootError(f"{run.name} did all {run.events:,} events before the clock started: give it more of them.")
    if done == run.events:
        await _check(where, run)
    return Pace((done - before) / took, done)


async def baseline(where: Ground, run: Run, log: Path) -> Pace:
    with log.open("ab") as output:
        process = await create_guarded_process(
            *[sys.executable, "-m", "bench.consume_baselines", run.name],
            *["--kafka", where.kafka, "--database", where.url, "--topic", run.topic, "--name", run.consumer],
            *["--warm", str(run.warm), "--events", str(run.events)],
            cwd=HERE,
            stdout=asyncio.subprocess.PIPE,
            stderr=output,
        )
    try:
        async with asyncio.timeout(START_S + PATIENCE_S):
            printed, _ = await process.communicate()
    finally:
        await _end(process)
    if process.returncode:
        raise _ended(run, log)
    await _check(where, run)
    return Pace(float(printed), run.events)


async def _check(where: Ground, run: Run) -> None:
    """A rate counts for nothing unless every event took effect once."""
    marked = await where.connection.fetchval(
        "SELECT count(*) FROM surefoot.processed_events WHERE consumer = $1 AND outcome = 'PROCESSED'", run.consumer
    )
    effects = await where.connection.fetchval(
        "SELECT (SELECT count(*) FROM placed) + $1::bigint - (SELECT sum(quantity)::bigint FROM stock)",
        STOCK * HOT_ROWS,
    )
    if (marked, effects) != (run.events, run.events):
        raise SurefootError(
            f"{run.name} read {run.events:,} events, marked {marked:,} as processed and left {effects:,} effects. "
            "The three should be the same, so its rate says nothing."
        )


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(LEAVE_S):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()


def _ended(run: Run, log: Path) -> SurefootError:
    return SurefootError(f"{run.name} ended by itself. It said last:\n{_tail(log)}")


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-15:])
