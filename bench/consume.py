"""`make bench-consume`: the consumer runtime beside a textbook consumer and a bare batch loop, on Kafka, interleaved.

Everything is a ratio inside a round or a median over the rounds; the machine's own speed is in neither. Writes
`bench/results/consume.json`.
"""

import json
import logging
import os
import platform
import statistics
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer
import uvloop
from rich.console import Console
from rich.progress import Progress

from bench import consume_runs
from bench.consume_baselines import BASELINES
from bench.consume_ground import clear, prepare, publish, topic_of
from bench.consume_runs import Pace, Run
from bench.ground import KEYS, PARTITIONS, Ground, entries, ground, rss_mb, servers
from surefoot.errors import SurefootError
from surefoot.outbox.entry import Entry

RESULTS = Path(__file__).parent / "results"
GOALS: dict[str, tuple[str, float]] = {
    "ratio_textbook": ("≥", 10),
    "ratio_bare_batch_handler": ("≥", 0.6),
    "rss_growth_mb": ("≤", 30),
}
CONTENDERS = ("textbook", "textbook_lean", "bare_batch", "per_event", "per_event_core", "whole_batch", "hot_rows")
MEMORY_HANDLER = "whole_batch"
WARM = 2000
WARM_TEXTBOOK = 500
CATCH_UP_S = 120.0
console = Console(highlight=False)
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Size:
    """How many events each works off in a round, and the memory run in all."""

    events: int = 60_000
    events_batches: int = 100_000
    events_core: int = 15_000
    events_textbook: int = 2_500
    events_lean: int = 6_500
    events_hot: int = 6_000
    memory_first: int = 100_000
    memory_further: int = 1_000_000
    memory_chunk: int = 50_000

    def of(self, contender: str) -> int:
        return {
            "textbook": self.events_textbook,
            "textbook_lean": self.events_lean,
            "bare_batch": self.events_batches,
            "whole_batch": self.events_batches,
            "per_event_core": self.events_core,
            "hot_rows": self.events_hot,
        }.get(contender, self.events)


SMALL = Size(
    events=20_000,
    events_batches=30_000,
    events_core=8_000,
    events_textbook=1_500,
    events_lean=2_500,
    events_hot=4_000,
    memory_first=20_000,
    memory_further=100_000,
    memory_chunk=20_000,
)


def main(
    rounds: Annotated[int, typer.Option(help="Rounds; at least 5 for figures to be kept.")] = 5,
    small: Annotated[bool, typer.Option("--small", help="Fewer events: a quick look, never kept.")] = False,
    keep: Annotated[bool, typer.Option(help="Write the results.")] = True,
) -> None:
    """Measure the consumer runtime. Takes about ten minutes."""
    size = SMALL if small else Size()
    logging.getLogger("aiokafka").setLevel(logging.ERROR)  # it warns of every topic that has no leader for a moment
    with servers() as (postgres, kafka), Progress(console=console) as progress:
        task = progress.add_task("consumer bench", total=rounds + 2)

        def say(what: str) -> None:
            progress.console.print(what)
            progress.advance(task)

        async def run() -> dict[str, object]:
            with tempfile.TemporaryDirectory() as logs:
                async with ground(postgres, kafka, "consume") as where:
                    await prepare(where)
                    log = Path(logs) / "consume.log"
                    return await _rates(where, log, rounds, size, say) | await _memory(where, log, size, say)

        try:
            figures = uvloop.run(run())
        except SurefootError as error:
            console.print(str(error), markup=False)
            raise typer.Exit(1) from None
    _show(figures)
    if keep and not small:
        _write(figures, rounds, size)


async def _rates(where: Ground, log: Path, rounds: int, size: Size, say: Say) -> dict[str, object]:
    batch = entries(size.events_batches)
    for name in BASELINES:  # a broker that was just started is slow until its code is compiled
        await _pace(where, name, 0, batch[: size.of(name)], log)
    say("the broker is warm")
    found: dict[str, list[float]] = {name: [] for name in CONTENDERS}
    for number in range(1, rounds + 1):
        first = number % len(CONTENDERS)  # nobody is always first, or always behind the same one
        paces: dict[str, Pace] = {}
        for name in CONTENDERS[first:] + CONTENDERS[:first]:
            paces[name] = await _pace(where, name, number, batch[: size.of(name)], log)
            found[name].append(paces[name].per_s)
        say(f"round {number}: " + ", ".join(_said(name, paces[name], size) for name in CONTENDERS))
    return {
        "events_per_s": _median(found["per_event"]),
        "events_core_per_s": _median(found["per_event_core"]),
        "batch_handler_per_s": _median(found["whole_batch"]),
        "hot_rows_per_s": _median(found["hot_rows"]),
        "textbook_per_s": _median(found["textbook"]),
        "textbook_lean_per_s": _median(found["textbook_lean"]),
        "bare_batch_per_s": _median(found["bare_batch"]),
        "ratio_textbook": _ratio(found, "per_event", "textbook"),
        "ratio_textbook_lean": _ratio(found, "per_event", "textbook_lean"),
        "ratio_bare": _ratio(found, "per_event", "bare_batch"),
        "ratio_textbook_core": _ratio(found, "per_event_core", "textbook"),
        "ratio_bare_core": _ratio(found, "per_event_core", "bare_batch"),
        "ratio_bare_batch_handler": _ratio(found, "whole_batch", "bare_batch"),
        "rounds": {name: [round(rate) for rate in rates] for name, rates in found.items()},
    }


async def _pace(where: Ground, name: str, number: int, batch: list[Entry], log: Path) -> Pace:
    """A topic, a group and tables of its own for each run; the same events for all."""
    await clear(where)
    warm = WARM_TEXTBOOK if name.startswith("textbook") else WARM
    async with topic_of(where, f"bench.{name.replace('_', '-')}.{number}") as topic:
        await publish(where, topic, batch)
        run = Run(name, f"{name}_{number}", topic, warm, len(batch))
        contender = consume_runs.baseline if name in BASELINES else consume_runs.ours
        return await contender(where, run, log)


async def _memory(where: Ground, log: Path, size: Size, say: Say) -> dict[str, object]:
    """Memory when the first events are worked off, and when very many more are. Published as they are needed."""
    await clear(where)
    total = size.memory_first + size.memory_further
    async with topic_of(where, "bench.memory") as topic:
        run = Run(MEMORY_HANDLER, "memory", topic, 0, total)
        async with consume_runs.working(where, run, log) as seen:
            found: dict[int, float] = {}
            for published in range(size.memory_chunk, total + 1, size.memory_chunk):
                await publish(where, topic, entries(size.memory_chunk))
                if await seen.until(published, CATCH_UP_S) < published:
                    raise SurefootError(f"{MEMORY_HANDLER} did not work off {size.memory_chunk:,} events in time.")
                found[published] = rss_mb(seen.process.pid)
    before, after = found[size.memory_first], found[total]
    say(f"memory: {before:.0f} MB after {size.memory_first:,} events, {after:.0f} MB after {total:,}")
    return {"rss_growth_mb": round(after - before, 1), "rss_mb": after, "rss_handler": MEMORY_HANDLER}


def _said(name: str, pace: Pace, size: Size) -> str:
    cut = "" if pace.done == size.of(name) else f" (only {pace.done:,} of {size.of(name):,} in time)"
    return f"{name} {pace.per_s:,.0f}/s{cut}"


def _median(rates: list[float]) -> int:
    return round(statistics.median(rates))


def _ratio(found: dict[str, list[float]], ours: str, theirs: str) -> float:
    return round(statistics.median(o / t for o, t in zip(found[ours], found[theirs], strict=True)), 3)


def _show(figures: dict[str, object]) -> None:
    for name, (sign, goal) in GOALS.items():
        value = float(str(figures[name]))
        met = value >= goal if sign == "≥" else value <= goal
        console.print(f"{'[green]✓[/]' if met else '[red]✗[/]'} {name} {value:g} (goal {sign} {goal:g})")


def _write(figures: dict[str, object], rounds: int, size: Size) -> None:
    RESULTS.mkdir(exist_ok=True)
    about = {
        "python": platform.python_version(),
        "cores": len(os.sched_getaffinity(0)),
        "partitions": PARTITIONS,
        "keys": KEYS,
        "size": {"rounds": rounds, **asdict(size)},
    }
    (RESULTS / "consume.json").write_text(json.dumps({**figures, "about": about}, indent=2) + "\n")
    console.print(f"Written to {RESULTS.name}/consume.json")


if __name__ == "__main__":
    typer.run(main)
