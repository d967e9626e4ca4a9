"""`make bench-startup`: what it costs to start a command, beside `import typer` alone.

Processor time (user and system) of whole processes: two help texts, what a service that publishes imports, a relay that
is stopped once it has its shards, and a consumer that finds nothing to do, both on the Postgres log. All take turns,
round by round, so that other work on the machine slows down all of them. Writes `bench/results/startup.json`.
"""

import asyncio
import json
import os
import platform
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from schemas import catalogue
from surefoot.cli.topics import declared
from surefoot.database.embedded import EmbeddedPostgres
from surefoot.database.migrate import migrate
from surefoot.database.schema import DEFAULT_SCHEMA
from surefoot.log.postgres.log import PostgresLog

RESULTS = Path(__file__).parent / "results"
ROUNDS = 15
FLOOR = "import typer"
GOALS_S = {"surefoot --help": 0.35, "surefoot consume --help": 0.5}
CONSUMER = "consumers.notification:notification"
console = Console(highlight=False)
Times = Mapping[str, Sequence[float]]


@dataclass(frozen=True, slots=True)
class Contender:
    arguments: Sequence[str]
    stop_at: str | None = None
    """It is stopped once it has logged this. Without it, it ends by itself."""


def main(
    rounds: Annotated[int, typer.Option(min=1, help="How often each is started.")] = ROUNDS,
    keep: Annotated[bool, typer.Option(help="Write the results.")] = True,
) -> None:
    """Measure what starting a command costs. Takes about two minutes."""
    with _database() as url:
        contenders = _contenders(url)
        times: dict[str, list[float]] = {name: [] for name in contenders}
        for contender in contenders.values():
            _processor_time(contender)  # compiles the bytecode
        for _ in range(rounds):
            for name, contender in contenders.items():
                times[name].append(_processor_time(contender))
    figures = {
        "processor_s": {name: round(statistics.median(found), 3) for name, found in times.items()},
        "times_typer": {name: round(_beside(times, name), 2) for name in times},
    }
    _show(figures)
    if keep:
        _write(figures, rounds)


def _contenders(url: str) -> Mapping[str, Contender]:
    surefoot, database = ("-m", "surefoot"), ("--database", url)
    return {
        FLOOR: Contender(("-c", FLOOR)),
        "import surefoot.outbox": Contender(("-c", "import surefoot.outbox")),
        "surefoot --help": Contender((*surefoot, "--help")),
        "surefoot consume --help": Contender((*surefoot, "consume", "--help")),
        "surefoot relay": Contender((*surefoot, "relay", *database), stop_at="gained"),
        "surefoot consume": Contender((*surefoot, "consume", CONSUMER, "--once", *database)),
    }


def _processor_time(contender: Contender) -> float:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with subprocess.Popen(
        [sys.executable, *contender.arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=environment,
        text=True,
    ) as process:
        assert process.stderr is not None
        said = ""
        for line in process.stderr:
            said += line
            if contender.stop_at is not None and contender.stop_at in line:
                process.send_signal(signal.SIGTERM)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{' '.join(contender.arguments)} ended with code {process.returncode}: {said}")
    return used.ru_utime + used.ru_stime


def _beside(times: Times, name: str) -> float:
    """How many times the floor it takes: the ratio within each round, and the median of those."""
    return statistics.median(taken / floor for taken, floor in zip(times[name], times[FLOOR], strict=True))


@contextmanager
def _database() -> Iterator[str]:
    """A migrated database with the platform's topics."""
    directory = Path(tempfile.mkdtemp(prefix="surefoot-bench-"))
    directory.chmod(0o755)
    postgres = EmbeddedPostgres(directory)
    try:
        url = postgres.start()
        asyncio.run(_prepare(url))
        yield url
    finally:
        postgres.stop()
        shutil.rmtree(directory, ignore_errors=True)


async def _prepare(url: str) -> None:
    await migrate(url)
    log = PostgresLog(url, DEFAULT_SCHEMA)
    await log.create(declared(catalogue))
    await log.close()


def _show(figures: Mapping[str, Mapping[str, float]]) -> None:
    for name, taken in figures["processor_s"].items():
        goal = GOALS_S.get(name)
        met = " " if goal is None else "[green]✓[/]" if taken <= goal else "[red]✗[/]"
        aim = "" if goal is None else f"  (goal ≤ {goal:g} s)"
        console.print(f"{met} {name:<24} {taken:.3f} s  {figures['times_typer'][name]:5.2f} times {FLOOR}{aim}")


def _write(figures: Mapping[str, Mapping[str, float]], rounds: int) -> None:
    described = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=True)
    about = {
        "commit": described.stdout.strip(),
        "python": platform.python_version(),
        "cores": len(os.sched_getaffinity(0)),
        "rounds": rounds,
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "startup.json").write_text(json.dumps({**figures, "about": about}, indent=2) + "\n")
    console.print(f"Written to {RESULTS.name}/startup.json")


if __name__ == "__main__":
    typer.run(main)
