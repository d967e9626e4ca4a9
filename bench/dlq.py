"""`make bench-dlq`: pages of dead letters through the admin service, with 10,000 and with 1,000,000 of them.

Every filter, the first page and one in the middle of the queue, groups, single letters. The two sizes are two databases
of one server and take turns, request by request, so that whatever else the machine does slows down both. Writes
`bench/results/dlq.json`.
"""

import json
import logging
import os
import platform
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import httpx
import typer
import uvloop
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from bench.dlq_first_failure import first_failure
from bench.dlq_kinds import Asked, Known, kinds
from bench.dlq_letters import rows, seed
from schemas import catalogue
from surefoot.admin import PREFIX, api
from surefoot.audit.access import Access, Tokens
from surefoot.audit.settings import AccessSettings
from surefoot.database.connection import connect
from surefoot.database.embedded import EmbeddedPostgres
from surefoot.database.migrate import migrate
from surefoot.dlq.settings import DlqSettings
from surefoot.errors import SurefootError
from surefoot.telemetry.logging import set_up_logging

RESULTS = Path(__file__).parent / "results"
P95_MS = 300.0
RATIO = 2.0
FIRST_FAILURE_MS = 2000.0
GENEROUS = AccessSettings(requests_per_second=100_000, requests_at_once=100_000)
console = Console(highlight=False)
Times = dict[str, list[float]]


@dataclass(frozen=True, slots=True)
class Size:
    few: int = 10_000
    many: int = 1_000_000
    samples: int = 120
    """Of each kind of page, at each size."""
    warm: int = 10


SMALL = Size(few=2_000, many=20_000, samples=10, warm=2)


@dataclass(frozen=True, slots=True)
class Service:
    client: httpx.AsyncClient
    known: Known

    async def ask(self, asked: Asked) -> float:
        """Milliseconds until the whole answer is there."""
        began = time.perf_counter()
        answer = await self.client.get(PREFIX + asked.path, params=asked.parameters)
        took = (time.perf_counter() - began) * 1000
        if answer.status_code != 200:
            raise SurefootError(
                f"{asked.path} {asked.parameters} was answered with {answer.status_code}: {answer.text}"
            )
        return took


def main(
    small: Annotated[bool, typer.Option("--small", help="Fewer letters: a quick look, never kept.")] = False,
    keep: Annotated[bool, typer.Option(help="Write the results.")] = True,
) -> None:
    """Measure pages of dead letters. Takes about ten minutes, most of them to seed."""
    size = SMALL if small else Size()
    set_up_logging(level=logging.CRITICAL)  # what fails here is meant to
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with _server() as postgres, Progress(*columns, console=console) as progress:
        try:
            figures = uvloop.run(_measure(postgres, size, progress))
        except SurefootError as error:
            console.print(str(error), markup=False)
            raise typer.Exit(1) from None
    _show(figures)
    if keep and not small:
        _write(figures, size)


async def _measure(postgres: EmbeddedPostgres, size: Size, progress: Progress) -> dict[str, object]:
    failure_ms = await first_failure(await _database(postgres, "first"))
    progress.console.print(f"from the failure of a handler to its row in the API: {failure_ms:.0f} ms")
    async with AsyncExitStack() as opened:
        few = await opened.enter_async_context(_service(postgres, "few", size.few, progress))
        many = await opened.enter_async_context(_service(postgres, "many", size.many, progress))
        at_few, at_many = await _take_turns(few, many, size, progress)
    ratios = {name: _p95(at_many[name]) / _p95(at_few[name]) for name in at_many}
    worst = max(ratios, key=lambda name: ratios[name])
    pages = [took for name, times in at_many.items() if name.startswith("events") for took in times]
    groups = [took for name, times in at_many.items() if name.startswith("groups") for took in times]
    return {
        "pages_ms": _percentiles(pages),
        "groups_ms": _percentiles(groups),
        "worst_p95_ms": round(max(map(_p95, at_many.values())), 1),
        "ratio_1m": round(ratios[worst], 2),
        "worst_kind": worst,
        "first_failure_ms": round(failure_ms),
        "kinds": {
            name: {
                "few": _percentiles(at_few[name]),
                "many": _percentiles(at_many[name]),
                "ratio": round(ratios[name], 2),
            }
            for name in at_many
        },
    }


async def _take_turns(few: Service, many: Service, size: Size, progress: Progress) -> tuple[Times, Times]:
    """In an order of their own each time: no kind always runs behind the same other one."""
    chance = random.Random(6)
    names = list(kinds(few.known, chance))
    at_few: Times = {name: [] for name in names}
    at_many: Times = {name: [] for name in names}
    task = progress.add_task("pages", total=(size.samples + size.warm) * len(names) * 2)
    for number in range(-size.warm, size.samples):
        asked_few, asked_many = kinds(few.known, chance), kinds(many.known, chance)
        for name in chance.sample(names, len(names)):
            took_few, took_many = await few.ask(asked_few[name]), await many.ask(asked_many[name])
            if number >= 0:
                at_few[name].append(took_few)
                at_many[name].append(took_many)
            progress.advance(task, 2)
    return at_few, at_many


@asynccontextmanager
async def _service(postgres: EmbeddedPostgres, name: str, letters: int, progress: Progress) -> AsyncIterator[Service]:
    url = await _database(postgres, name)
    task = progress.add_task(f"seeding {letters:,}", total=letters)
    connection = await connect(url, name="bench")
    try:
        for part in rows(letters):
            await seed(connection, part)
            progress.advance(task, len(part))
        await connection.execute("VACUUM ANALYZE surefoot.dlq_events")
        await connection.execute("VACUUM ANALYZE surefoot.dlq_groups")
        known = await Known.of(connection)
        async with connection.transaction():
            tokens = Tokens(connection, "surefoot")
            token = (await tokens.create("bench", "ADMIN", lifetime=timedelta(days=1), by="bench")).token
    finally:
        await connection.close()
    app = api(url, "surefoot", DlqSettings(), Access(GENEROUS), catalogue)
    async with app.router.lifespan_context(app):
        headers = {"Authorization": f"Bearer {token}"}
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://bench", headers=headers) as client:
            yield Service(client, known)


async def _database(postgres: EmbeddedPostgres, name: str) -> str:
    connection = await connect(postgres.url, name="bench")
    try:
        await connection.execute(f"CREATE DATABASE {name}")
    finally:
        await connection.close()
    url = postgres.url.removesuffix("/postgres") + f"/{name}"
    await migrate(url)
    return url


@contextmanager
def _server() -> Iterator[EmbeddedPostgres]:
    directory = Path(tempfile.mkdtemp(prefix="surefoot-bench-"))
    directory.chmod(0o755)
    postgres = EmbeddedPostgres(directory)
    try:
        postgres.start()
        yield postgres
    finally:
        postgres.stop()
        shutil.rmtree(directory, ignore_errors=True)


def _p95(times: Sequence[float]) -> float:
    return statistics.quantiles(times, n=20)[-1]


def _percentiles(times: Sequence[float]) -> dict[str, float]:
    return {"p50": round(statistics.median(times), 1), "p95": round(_p95(times), 1)}


def _show(figures: dict[str, object]) -> None:
    for name, goal in (("worst_p95_ms", P95_MS), ("ratio_1m", RATIO), ("first_failure_ms", FIRST_FAILURE_MS)):
        value = float(str(figures[name]))
        console.print(f"{'[green]✓[/]' if value <= goal else '[red]✗[/]'} {name} {value:g} (goal ≤ {goal:g})")
    console.print(f"pages {figures['pages_ms']}, groups {figures['groups_ms']}, worst kind: {figures['worst_kind']}")


def _write(figures: dict[str, object], size: Size) -> None:
    RESULTS.mkdir(exist_ok=True)
    about = {"python": platform.python_version(), "cores": len(os.sched_getaffinity(0)), "size": asdict(size)}
    (RESULTS / "dlq.json").write_text(json.dumps({**figures, "about": about}, indent=2) + "\n")
    console.print(f"Written to {RESULTS.name}/dlq.json")


if __name__ == "__main__":
    typer.run(main)
