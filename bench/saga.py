"""`make bench-saga`: whole 4-step order sagas, one in ten declined and undone, beside the floor, on both logs.

The floor (`bench.saga_floor`) is what the database alone costs: the same business writes, no events, no sagas. Rounds
are interleaved; everything is a ratio inside a round or a median over the rounds. Writes `bench/results/saga.json`.
"""

import asyncio
import json
import logging
import os
import platform
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer
import uvloop
from rich.console import Console
from rich.progress import Progress

from bench import saga_growth, saga_latency, saga_profile
from bench.ground import servers
from bench.saga_ground import Shop, open_for_business, shop
from surefoot.database.embedded import EmbeddedPostgres
from surefoot.errors import SurefootError
from surefoot.process_guard import create_guarded_process

RESULTS = Path(__file__).parent / "results"
GOALS: dict[str, tuple[str, float]] = {
    "ratio_floor": ("≥", 0.3),
    "ratio_floor_kafka": ("≥", 0.3),
    "p50": ("≤", 80),
    "p99": ("≤", 250),
    "growth_10x": ("≥", 0.8),
}
LOGS = ("embedded", "kafka")
console = Console(highlight=False)
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Size:
    sagas: int = 2000
    """In each round."""
    floor: int = 6000
    warm: int = 300
    latency_s: float = 30.0


SMALL = Size(sagas=400, floor=2000, warm=100, latency_s=8.0)


@dataclass(frozen=True, slots=True)
class Round:
    embedded: float
    kafka: float
    floor: float


def main(
    rounds: Annotated[int, typer.Option(help="Rounds; at least 5 for figures to be kept.")] = 5,
    small: Annotated[bool, typer.Option("--small", help="Fewer sagas: a quick look, never kept.")] = False,
    keep: Annotated[bool, typer.Option(help="Write the results.")] = True,
) -> None:
    """Measure sagas. Takes about ten minutes."""
    size = SMALL if small else Size()
    logging.getLogger("aiokafka").setLevel(logging.ERROR)
    with servers() as (postgres, kafka), Progress(console=console) as progress:
        postgres.stop()
        postgres.options = {"track_commit_timestamp": "on"}  # it tells when sagas were there for all to see
        postgres.start()
        task = progress.add_task("saga bench", total=rounds + 5)

        def say(what: str) -> None:
            progress.console.print(what)
            progress.advance(task)

        async def run() -> tuple[dict[str, object], str]:
            with tempfile.TemporaryDirectory() as logs:
                return await _measure(postgres, kafka, Path(logs), rounds, size, say)

        try:
            figures, profile = uvloop.run(run())
        except SurefootError as error:
            console.print(str(error), markup=False)
            raise typer.Exit(1) from None
    _show(figures)
    if keep and not small:
        _write(figures, profile, rounds, size)


async def _measure(
    postgres: EmbeddedPostgres, kafka: str, logs: Path, rounds: int, size: Size, say: Say
) -> tuple[dict[str, object], str]:
    async with (
        shop(postgres, None, "embedded", logs) as embedded,
        shop(postgres, kafka, "on_kafka", logs) as on_kafka,
        shop(postgres, None, "floor", logs) as floor,
    ):
        used: dict[str, dict[str, float]] = {}
        found: list[Round] = []
        for number in range(rounds + 1):
            paces = {
                "embedded": await _pace(embedded, postgres, size, used),
                "kafka": await _pace(on_kafka, postgres, size, used),
                "floor": await _floor(floor, size),
            }
            if number:  # the first gets everything warm, the broker above all
                found.append(Round(**paces))
            said = ", ".join(f"{name} {rate:,.0f}/s" for name, rate in paces.items())
            say(f"{'round ' + str(number) if number else 'warm'}: {said}")
        latencies = {}
        for name, where in (("embedded", embedded), ("kafka", on_kafka)):
            latencies[name] = await saga_latency.measure(where, size.latency_s)
            say(f"latency at {saga_latency.RATE} sagas/s, {name}: {latencies[name]}")
        growth = await saga_growth.measure(embedded, size.sagas)
        say(f"with 10 times the sagas stored: {growth:.2f} of the rate")
        profile = await saga_profile.measure(embedded, size.sagas // 2)
        say("profiled")
    figures = {
        "sagas_per_s": round(statistics.median(one.embedded for one in found), 1),
        "sagas_per_s_kafka": round(statistics.median(one.kafka for one in found), 1),
        "floor_per_s": round(statistics.median(one.floor for one in found), 1),
        "ratio_floor": round(statistics.median(one.embedded / one.floor for one in found), 3),
        "ratio_floor_kafka": round(statistics.median(one.kafka / one.floor for one in found), 3),
        "latency_ms": latencies["embedded"],
        "latency_ms_kafka": latencies["kafka"],
        "growth_10x": round(growth, 3),
        "processor_ms_per_saga": used,
        "rounds": [asdict(one) for one in found],
    }
    return figures, profile


async def _pace(where: Shop, postgres: EmbeddedPostgres, size: Size, used: dict[str, dict[str, float]]) -> float:
    async with open_for_business(where):
        await where.warm_up(size.warm)
        cpu = where.processor_s(postgres)
        rate = await where.rate(size.sagas)
        used["kafka" if where.kafka else "embedded"] = _each(cpu, where.processor_s(postgres), size.sagas)
    await where.check()
    return rate


def _each(before: Mapping[str, float], after: Mapping[str, float], sagas: int) -> dict[str, float]:
    """Milliseconds of processor time for a saga, by process; of the last round."""
    return {name: round((after[name] - before[name]) / sagas * 1000, 2) for name in after}


async def _floor(where: Shop, size: Size) -> float:
    first, _ = await where.new_orders(size.floor + 1000)
    command = [sys.executable, "-m", "bench.saga_floor", where.url, str(first), str(size.floor)]
    process = await create_guarded_process(*command, stdout=asyncio.subprocess.PIPE)
    printed, _ = await process.communicate()
    if process.returncode:
        raise SurefootError("The floor ended with an error: the bench says nothing without it.")
    return float(printed)


def _show(figures: dict[str, object]) -> None:
    latency = figures["latency_ms"]
    assert isinstance(latency, dict)
    for name, (sign, goal) in GOALS.items():
        value = float(str(latency[name] if name in latency else figures[name]))
        met = value >= goal if sign == "≥" else value <= goal
        console.print(f"{'[green]✓[/]' if met else '[red]✗[/]'} {name} {value:g} (goal {sign} {goal:g})")


def _write(figures: dict[str, object], profile: str, rounds: int, size: Size) -> None:
    RESULTS.mkdir(exist_ok=True)
    about = {
        "python": platform.python_version(),
        "cores": len(os.sched_getaffinity(0)),
        "size": {"rounds": rounds, **asdict(size)},
    }
    (RESULTS / "saga.json").write_text(json.dumps({**figures, "about": about}, indent=2) + "\n")
    (RESULTS / "saga_profile.txt").write_text(profile)
    console.print(f"Written to {RESULTS.name}/saga.json, saga_profile.txt")


if __name__ == "__main__":
    typer.run(main)
