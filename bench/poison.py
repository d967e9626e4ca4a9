"""`make bench-poison`: how much one poisoned key of a thousand costs the others, at a steady load, on Kafka.

One consumer, the same load again and again: without poison, then with it. The figure is the time from publication to
commit of the other keys' events; the ratio is made within each pair, so the machine's own speed is not in it. Writes
`bench/results/poison.json`. The consumer that is measured is declared here, too: it runs as a process of its own.
"""

import asyncio
import json
import logging
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer
import uvloop
from rich.console import Console
from rich.progress import Progress

from bench.consume_ground import clear, prepare, publish, topic_of
from bench.consume_handlers import NAME, OrderPlaced, add_row
from bench.consume_runs import HERE, LOOK_S, START_S, Run, Working
from bench.ground import KEYS, PARTITIONS, Ground, entries, ground, order, servers
from surefoot.consumer import Consumer, Transaction
from surefoot.errors import SurefootError
from surefoot.events import Event, new_event
from surefoot.log.kafka.log import KafkaLog
from surefoot.log.kafka.settings import KafkaSettings
from surefoot.log.port import Acknowledged, Publisher, TopicSpec
from surefoot.outbox.entry import Entry, entry_of
from surefoot.process_guard import create_guarded_process
from surefoot.relay.plan import PendingRow, plan
from surefoot.retry import Retry

RESULTS = Path(__file__).parent / "results"
GOALS: dict[str, tuple[str, float]] = {"ratio_poison": ("≤", 2)}
POISON = "poison"
HEALTHY = "x" * 80
WARM = 2000
TICK_S = 0.02
CATCH_UP_S = 60.0
# About three tries a second, and enough of them that it is still being tried when a phase ends.
RETRY = Retry(attempts=70, first=timedelta(milliseconds=100), longest=timedelta(milliseconds=400))
console = Console(highlight=False)
Say = Callable[[str], None]

consumer = Consumer(NAME, retry=RETRY)


class Poisoned(Exception):
    """What the handler makes of an event that carries poison."""


@consumer.on(OrderPlaced)
async def add_row_unless_poisoned(event: Event[OrderPlaced], tx: Transaction) -> None:
    if event.data.note == POISON:
        raise Poisoned(f"an order of {event.key} that nobody can place")
    await add_row(event, tx)


@dataclass(frozen=True, slots=True)
class Size:
    pairs: int = 7
    seconds: float = 15.0
    """Of each phase. In 6 s the 18 slowest events decide: pairs came out anywhere from 0.4 to 2.4 (tried)."""
    events_per_s: int = 300
    poison_every: int = 100
    """So many events after another, one is of the key that is poisoned or will be."""


SMALL = Size(pairs=3, seconds=2.0)


@dataclass(frozen=True, slots=True)
class Pair:
    """The 99th percentile of the other keys' time from publication to commit, in milliseconds."""

    without_ms: float
    with_ms: float
    tries: int
    """How often the poison was tried while the load ran."""

    @property
    def ratio(self) -> float:
        return self.with_ms / self.without_ms


@dataclass(slots=True)
class Stand:
    """A consumer at work, and what it was given so far."""

    seen: Working
    publisher: Publisher
    topic: TopicSpec
    published: int
    held: int = 0
    """Those of poisoned keys among them: they are never done."""

    async def offer(self, size: Size, key: str, note: str) -> float:
        """Publish for one phase; the 99th percentile of all keys but this one, whose events carry `note`."""
        sent: dict[str, float] = {}
        offered, total, began = 0, int(size.events_per_s * size.seconds), time.perf_counter()
        while offered < total:
            due = min(total, int((time.perf_counter() - began) * size.events_per_s))
            made = [_entry(number, size, key, note) for number in range(offered, due)]
            now = time.time()
            sent |= {each.event_id: now for each in made if each.key != key}
            await self._publish(made)
            offered = due
            await asyncio.sleep(TICK_S)  # the pace of the load
        self.published += total
        self.held += (total - len(sent)) if note == POISON else 0
        await self._others_done()
        return 1000 * _p99(await self._took_s(sent))

    async def tries(self, key: str) -> int:
        """How often this key's poison was tried until now."""
        found = "SELECT coalesce(max(attempts), 0) FROM surefoot.parked_events WHERE key = $1"
        return int(await self.seen.where.connection.fetchval(found, key))

    async def died(self, size: Size, key: str) -> None:
        """Wait until the key's first event is dead and all the others of it wait behind."""
        expected = len(range(0, int(size.events_per_s * size.seconds), size.poison_every))
        found = "SELECT count(*), count(*) FILTER (WHERE state = 'DEAD') FROM surefoot.parked_events WHERE key = $1"
        deadline = time.perf_counter() + CATCH_UP_S
        while True:
            parked, dead = await self.seen.where.connection.fetchrow(found, key)
            if (parked, dead) == (expected, 1):
                return
            if time.perf_counter() > deadline:
                raise SurefootError(
                    f"Of {expected} events of {key}, {parked} are parked and {dead} dead after {CATCH_UP_S:.0f} s. All "
                    "should be parked and one of them dead, so the figures say nothing."
                )
            await asyncio.sleep(LOOK_S)

    async def _publish(self, rows: list[Entry]) -> None:
        name = self.topic.name
        pending = [PendingRow(n, 0, e.key_hash, name, e.key, e.body, e.headers, 0) for n, e in enumerate(rows)]
        batches = plan(pending, {name: self.topic}).batches
        outcomes = await asyncio.gather(*(self.publisher.publish(at, batch.records) for at, batch in batches.items()))
        if sum(each.count for each in outcomes if isinstance(each, Acknowledged)) != len(rows):
            raise SurefootError("Kafka did not store all events: the bench cannot go on without them.")

    async def _others_done(self) -> None:
        wanted = self.published - self.held
        if await self.seen.until(wanted, CATCH_UP_S) < wanted:
            raise SurefootError(f"The other keys' events were not all done within {CATCH_UP_S:.0f} s.")

    async def _took_s(self, sent: dict[str, float]) -> list[float]:
        """A time counts for nothing unless every event took effect once."""
        rows = await self.seen.where.connection.fetch(
            "SELECT event_id, extract(epoch FROM pg_xact_commit_timestamp(xmin))::float8 AS at FROM placed "
            "WHERE event_id = ANY ($1)",
            list(sent),
        )
        if sorted(row["event_id"] for row in rows) != sorted(sent):
            raise SurefootError(f"{len(sent):,} events left {len(rows):,} effects: their times say nothing.")
        return [row["at"] - sent[row["event_id"]] for row in rows]


def main(
    pairs: Annotated[int | None, typer.Option(help="Pairs; at least 5 for figures to be kept.")] = None,
    small: Annotated[bool, typer.Option("--small", help="Short phases: a quick look, never kept.")] = False,
    keep: Annotated[bool, typer.Option(help="Write the results.")] = True,
) -> None:
    """Measure what a poisoned key costs the others. Takes about five minutes."""
    size = SMALL if small else Size()
    size = replace(size, pairs=pairs or size.pairs)
    logging.getLogger("aiokafka").setLevel(logging.ERROR)  # it warns of every topic that has no leader for a moment
    with servers() as (postgres, kafka), Progress(console=console) as progress:
        task = progress.add_task("poison bench", total=size.pairs + 1)
        postgres.stop()
        postgres.options = {"track_commit_timestamp": "on"}  # read at the start only; it tells when effects were there
        postgres.start()

        def say(what: str) -> None:
            progress.console.print(what)
            progress.advance(task)

        async def run() -> list[Pair]:
            with tempfile.TemporaryDirectory() as logs:
                async with ground(postgres, kafka, "poison") as where:
                    await prepare(where)
                    return await _pairs(where, Path(logs) / "consume.log", size, say)

        try:
            found = uvloop.run(run())
        except SurefootError as error:
            console.print(str(error), markup=False)
            raise typer.Exit(1) from None
    figures = _figures(found)
    _show(figures)
    if keep and not small:
        _write(figures, size)


async def _pairs(where: Ground, log: Path, size: Size, say: Say) -> list[Pair]:
    await clear(where)
    async with topic_of(where, "bench.poison") as topic, _stand(where, topic, log) as stand:
        await stand.offer(size, "warm", HEALTHY)  # a broker that was just started is slow until its code is compiled
        say("broker and consumer are warm")
        found: list[Pair] = []
        for number in range(1, size.pairs + 1):
            key = f"poisoned-{number}"
            without_ms = await stand.offer(size, key, HEALTHY)
            with_ms = await stand.offer(size, key, POISON)
            pair = Pair(without_ms, with_ms, await stand.tries(key))
            await stand.died(size, key)
            found.append(pair)
            both = f"{pair.without_ms:.1f} ms without poison, {pair.with_ms:.1f} ms with"
            say(f"pair {number}: p99 {both} (tried {pair.tries} times)")
    return found


@asynccontextmanager
async def _stand(where: Ground, topic: str, log: Path) -> AsyncIterator[Stand]:
    await publish(where, topic, entries(WARM))
    kafka = KafkaLog(KafkaSettings(bootstrap_servers=where.kafka))
    publisher = await kafka.publisher()
    spec = await publisher.topic(topic)
    assert spec is not None, "it was made a moment ago"
    with log.open("ab") as output:
        process = await create_guarded_process(
            *[sys.executable, "-m", "surefoot", "consume", "bench.poison:consumer"],
            *["--kafka", where.kafka, "--database", where.url],
            cwd=HERE,
            env={**os.environ, "BENCH_CONSUMER": "poison", "BENCH_TOPIC": topic},
            stdout=output,
            stderr=output,
        )
    try:
        seen = Working(where, Run("poison", "poison", topic, WARM, WARM), process, log)
        if await seen.until(WARM, START_S) < WARM:
            raise SurefootError(f"The consumer did not work off the first {WARM:,} events in time.")
        yield Stand(seen, publisher, spec, published=WARM)
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
        await publisher.close()
        await kafka.close()


def _entry(number: int, size: Size, key: str, note: str) -> Entry:
    data = order(number % (KEYS - 1))
    if number % size.poison_every == 0:
        data = data.model_copy(update={"order_id": key, "note": note})
    return entry_of(new_event(data))


def _p99(took: list[float]) -> float:
    return sorted(took)[int(len(took) * 0.99)]


def _figures(found: list[Pair]) -> dict[str, object]:
    return {
        "p99_without_ms": round(statistics.median(pair.without_ms for pair in found), 1),
        "p99_with_ms": round(statistics.median(pair.with_ms for pair in found), 1),
        "ratio_poison": round(statistics.median(pair.ratio for pair in found), 3),
        "pairs": [
            {name: round(figure, 1) for name, figure in asdict(pair).items()} | {"ratio": round(pair.ratio, 3)}
            for pair in found
        ],
    }


def _show(figures: dict[str, object]) -> None:
    for name, (sign, goal) in GOALS.items():
        value = float(str(figures[name]))
        console.print(f"{'[green]✓[/]' if value <= goal else '[red]✗[/]'} {name} {value:g} (goal {sign} {goal:g})")


def _write(figures: dict[str, object], size: Size) -> None:
    RESULTS.mkdir(exist_ok=True)
    about = {
        "python": platform.python_version(),
        "cores": len(os.sched_getaffinity(0)),
        "partitions": PARTITIONS,
        "keys": KEYS,
        "attempts": RETRY.attempts,
        "size": asdict(size),
    }
    (RESULTS / "poison.json").write_text(json.dumps({**figures, "about": about}, indent=2) + "\n")
    console.print(f"Written to {RESULTS.name}/poison.json")


if __name__ == "__main__":
    typer.run(main)
