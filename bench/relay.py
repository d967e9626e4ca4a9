"""`make bench-relay`: the relay beside a textbook worker and a bare producer, on Kafka, interleaved in one run.

Everything is a ratio inside the run or a median over its rounds; the machine's own speed is in neither. Writes
`bench/results/relay.json` and a plot.
"""

import json
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
import uvloop
from rich.console import Console
from rich.progress import Progress

from bench import overhead
from bench.baselines import bare_producer, textbook
from bench.ground import Ground, entries, ground, relay, rss_mb, servers
from bench.latency import latencies_ms
from bench.plot import plot
from surefoot.outbox.entry import Entry

RESULTS = Path(__file__).parent / "results"
GOALS: dict[str, tuple[str, float]] = {
    "ratio_textbook": ("≥", 40),
    "ratio_bare": ("≥", 0.8),
    "latency_p50_ms": ("≤", 6),
    "latency_p99_ms": ("≤", 40),
    "growth_1m": ("≥", 0.8),
    "add_overhead": ("≤", 0.3),
}
console = Console(highlight=False)
Say = Callable[[str], None]


def main(
    rounds: Annotated[int, typer.Option(help="Rounds; at least 5 for figures to be kept.")] = 5,
    rows: Annotated[int, typer.Option(help="Rows the relay and the bare producer move in a round.")] = 100_000,
    stored: Annotated[int, typer.Option(help="Rows stored already in the large table.")] = 1_000_000,
    seconds: Annotated[int, typer.Option(help="Length of the latency run, at 500 events/s.")] = 30,
    keep: Annotated[bool, typer.Option(help="Write the results.")] = True,
) -> None:
    """Measure the relay. Takes about ten minutes."""
    with servers() as (postgres, kafka), Progress(console=console) as progress:
        task = progress.add_task("relay bench", total=rounds * 2 + 3)

        def say(what: str) -> None:
            progress.console.print(what)
            progress.advance(task)

        async def run() -> dict[str, object]:
            with tempfile.TemporaryDirectory() as logs:
                log = Path(logs) / "relay.log"
                async with ground(postgres, kafka, "small") as small:
                    figures = await _throughput(small, log, rounds, rows, say)
                    figures |= await _latency(small, log, seconds, say)
                    figures |= await _overhead(small, max(rounds, 5), say)
                    async with ground(postgres, kafka, "large") as large:
                        figures |= await _growth(small, large, log, rounds, rows // 2, stored, say)
                return figures

        figures = uvloop.run(run())
    _show(figures)
    if keep:
        _write(figures, {"rounds": rounds, "rows": rows, "stored": stored, "latency_seconds": seconds})


async def _throughput(where: Ground, log: Path, rounds: int, rows: int, say: Say) -> dict[str, object]:
    ours: list[float] = []
    worker: list[float] = []
    bare: list[float] = []
    batch = entries(rows)
    await bare_producer(where.kafka, batch)  # a broker that was just started is slow until its code is compiled
    await bare_producer(where.kafka, batch)
    for number in range(rounds):
        await where.clear()
        async with relay(where, log) as pid:
            ours.append(await _drain(where, rows, batch))
            memory = rss_mb(pid)
        await where.clear()
        await where.fill(entries(3000))
        worker.append(await textbook(where, 3000))
        bare.append(await bare_producer(where.kafka, batch))
        batch = entries(rows)  # new ids
        rates = f"relay {ours[-1]:,.0f} rows/s, textbook {worker[-1]:,.0f}, bare producer {bare[-1]:,.0f}"
        say(f"round {number + 1}: {rates}")
    return {
        "relay_rows_per_s": round(statistics.median(ours)),
        "textbook_rows_per_s": round(statistics.median(worker)),
        "bare_producer_rows_per_s": round(statistics.median(bare)),
        "ratio_textbook": round(statistics.median(o / w for o, w in zip(ours, worker, strict=True)), 2),
        "ratio_bare": round(statistics.median(o / b for o, b in zip(ours, bare, strict=True)), 3),
        "rss_mb": memory,
        "rounds": {"relay": _rounded(ours), "textbook": _rounded(worker), "bare_producer": _rounded(bare)},
    }


async def _drain(where: Ground, rows: int, batch: list[Entry]) -> float:
    await where.fill(batch)
    began = time.perf_counter()
    await where.drained()
    return rows / (time.perf_counter() - began)


async def _latency(where: Ground, log: Path, seconds: int, say: Say) -> dict[str, object]:
    await where.clear()
    async with relay(where, log):
        await latencies_ms(where, rate=500, seconds=3)  # warm
        found = sorted(await latencies_ms(where, rate=500, seconds=seconds))
    p50, p99 = found[len(found) // 2], found[int(len(found) * 0.99)]
    say(f"commit to topic at 500 events/s: p50 {p50:.1f} ms, p99 {p99:.1f} ms over {len(found):,} events")
    return {"latency_ms": {"p50": round(p50, 2), "p99": round(p99, 2), "max": round(found[-1], 1)}}


async def _overhead(where: Ground, rounds: int, say: Say) -> dict[str, object]:
    await where.clear()
    engine = await overhead.prepare(where)
    added: dict[int, list[float]] = {1: [], 16: []}
    for number in range(rounds + 1):
        alone = await overhead.added_alone(engine, 500)
        together = await overhead.added_together(
            engine, writers=16, transactions=4000, with_event_first=bool(number % 2)
        )
        if number:  # the first round warms up
            added[1].append(alone)
            added[16].append(together)
    await engine.dispose()
    medians = {writers: round(statistics.median(found), 3) for writers, found in added.items()}
    say(f"outbox.add adds {medians[1]:.0%} to a transaction with 1 writer, {medians[16]:.0%} with 16")
    return {"add_overhead": max(medians.values()), "add_overhead_by_writers": medians}


async def _growth(
    small: Ground, large: Ground, log: Path, rounds: int, rows: int, stored: int, say: Say
) -> dict[str, object]:
    for _ in range(0, stored, 50_000):
        await large.fill(entries(50_000), status="PUBLISHED")
    await large.connection.execute("VACUUM ANALYZE surefoot.outbox_events")
    say(f"stored {stored:,} rows in the large table")
    ratios: list[float] = []
    for number in range(rounds):
        await small.clear()
        await small.fill(entries(1000), status="PUBLISHED")
        speeds = []
        for where in (small, large):
            async with relay(where, log):
                speeds.append(await _drain(where, rows, entries(rows)))
        ratios.append(speeds[1] / speeds[0])
        say(f"round {number + 1}: {speeds[0]:,.0f} rows/s with 1,000 stored, {speeds[1]:,.0f} with {stored:,} and more")
    return {"growth_1m": round(statistics.median(ratios), 3), "growth_rounds": [round(ratio, 3) for ratio in ratios]}


def _rounded(values: list[float]) -> list[int]:
    return [round(value) for value in values]


def _flat(figures: dict[str, object]) -> dict[str, float]:
    latency = figures["latency_ms"]
    assert isinstance(latency, dict)
    flat = {**figures, "latency_p50_ms": latency["p50"], "latency_p99_ms": latency["p99"]}
    return {name: float(str(flat[name])) for name in GOALS}


def _show(figures: dict[str, object]) -> None:
    for name, value in _flat(figures).items():
        sign, goal = GOALS[name]
        met = value >= goal if sign == "≥" else value <= goal
        console.print(f"{'[green]✓[/]' if met else '[red]✗[/]'} {name} {value:g} (goal {sign} {goal:g})")


def _write(figures: dict[str, object], size: dict[str, int]) -> None:
    RESULTS.mkdir(exist_ok=True)
    about = {"python": platform.python_version(), "cores": len(os.sched_getaffinity(0)), "size": size}
    (RESULTS / "relay.json").write_text(json.dumps({**figures, "about": about}, indent=2) + "\n")
    plot(figures, RESULTS / "relay.png")
    console.print(f"Written to {RESULTS.name}/relay.json and relay.png")


if __name__ == "__main__":
    typer.run(main)
