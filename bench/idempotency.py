"""`make bench-idempotency`: what the layer adds to an endpoint, beside the same endpoint without it in the same run.

Added time for a local route, for one with an outside call, the time of a replay; requests a second at saturation, as a
ratio; and both with 1,000,000 stored keys against 1,000. All kinds take turns, request by request or round by round,
so that whatever else the machine does slows down all of them. Writes `bench/results/idempotency.json`.
"""

import asyncio
import json
import os
import platform
import shutil
import statistics
import sys
import tempfile
import uuid
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer
import uvloop
from rich.console import Console

from bench.idempotency_client import Asked, Line, lines, rate
from surefoot.database.connection import connect
from surefoot.database.embedded import EmbeddedPostgres
from surefoot.database.migrate import migrate
from surefoot.errors import SurefootError
from surefoot.process_guard import create_guarded_process

RESULTS = Path(__file__).parent / "results"
BODY = json.dumps({"item": "a chair of oak, oiled", "amount": 12_900}).encode()
GOALS = {"local p50": 2.0, "outside p50": 4.0, "outside p99": 15.0, "replay p50": 2.0}
GROWTH = 0.8
KINDS = ("/bare/local", "/local", "/bare/outside", "/outside", "replay")
console = Console(highlight=False)
Times = dict[str, list[float]]

_SEED = """
    INSERT INTO surefoot.idempotency_keys (key_hash, tenant, route, effect, state, fingerprint, fingerprint_version,
        fence, attempts, owner, status, headers, body, created_at, answered_at, replay_until, gone_until)
    SELECT sha256(('seeded ' || n)::bytea), 'tenant-' || n % 100, 'POST /local', 'local', 'COMPLETED',
        sha256(n::text::bytea), 1, 1, 1, 'bench', 201, '[["content-type", "application/json"]]',
        convert_to('{"id":"' || md5(n::text) || '","item":"a chair of oak, oiled","amount":12900}', 'UTF8'),
        now() - n * interval '80 ms', now() - n * interval '80 ms',
        now() - n * interval '80 ms' + interval '24 hours', now() - n * interval '80 ms' + interval '48 hours'
    FROM generate_series($1::int, $2::int) AS n"""


@dataclass(frozen=True, slots=True)
class Size:
    samples: int = 3_000
    """Of each kind, one after the other."""
    warm: int = 200
    rounds: int = 5
    round_requests: int = 3_000
    at_once: int = 32
    few: int = 1_000
    many: int = 1_000_000


SMALL = Size(samples=100, warm=20, rounds=2, round_requests=200, many=20_000)


def main(
    small: Annotated[bool, typer.Option("--small", help="Fewer requests: a quick look, never kept.")] = False,
    keep: Annotated[bool, typer.Option(help="Write the results.")] = True,
) -> None:
    """Measure what idempotency costs. Takes some five minutes."""
    size = SMALL if small else Size()
    with _server() as postgres:
        try:
            figures = uvloop.run(_measure(postgres, size))
        except SurefootError as error:
            console.print(str(error), markup=False)
            raise typer.Exit(1) from None
    _show(figures)
    if keep and not small:
        _write(figures, size)


async def _measure(postgres: EmbeddedPostgres, size: Size) -> dict[str, object]:
    async with AsyncExitStack() as opened:
        provider = await opened.enter_async_context(_child("provider"))
        where = f"http://127.0.0.1:{provider}"
        few = await opened.enter_async_context(_child(await _database(postgres, "few", size.few), where))
        many = await opened.enter_async_context(_child(await _database(postgres, "many", size.many), where))
        times = await _one_by_one(few, size)
        rates = await _at_saturation(few, many, size)
    bare, protected = statistics.median(rates["bare"]), statistics.median(rates["few"])
    return {
        "local_added_ms": _added(times["/local"], times["/bare/local"]),
        "outside_added_ms": _added(times["/outside"], times["/bare/outside"]),
        "replay_ms": _percentiles(times["replay"]),
        "ratio_rps": round(protected / bare, 3),
        "growth_1m": round(statistics.median(rates["many"]) / protected, 3),
        "rps": {name: round(statistics.median(found)) for name, found in rates.items()},
        "times_ms": {name: _percentiles(found) for name, found in times.items()},
    }


async def _one_by_one(port: int, size: Size) -> Times:
    """One request at a time, the kinds in turn."""
    line = await Line.to(port)
    known = Asked("/local", _key(), BODY)
    await line.ask(known)
    times: Times = {kind: [] for kind in KINDS}
    for number in range(-size.warm, size.samples):
        for kind in KINDS:
            took = await line.ask(known if kind == "replay" else _asked(kind))
            if number >= 0:
                times[kind].append(took)
    await line.close()
    return times


async def _at_saturation(few: int, many: int, size: Size) -> Times:
    rates: Times = {"bare": [], "few": [], "many": []}
    kinds = [("bare", few, "/bare/local"), ("few", few, "/local"), ("many", many, "/local")]
    for number in range(-1, size.rounds):  # the first warms up, and does not count
        for name, port, path in kinds:
            open_lines = await lines(port, size.at_once)  # the server closes what is idle while others have their turn
            found = await rate(open_lines, [_asked(path) for _ in range(size.round_requests)])
            for line in open_lines:
                await line.close()
            if number >= 0:
                rates[name].append(found)
                console.print(f"{name:>5} {found:7,.0f} requests/s")
    return rates


def _asked(path: str) -> Asked:
    return Asked(path, None if path.startswith("/bare") else _key(), BODY)


def _key() -> str:
    return uuid.uuid4().hex


@asynccontextmanager
async def _child(*arguments: str) -> AsyncIterator[int]:
    """The port it serves at."""
    command = [sys.executable, "-m", "bench.idempotency_app", *arguments]
    child = await create_guarded_process(*command, stdout=asyncio.subprocess.PIPE)
    try:
        assert child.stdout is not None
        said = await child.stdout.readline()
        if not said:
            raise SurefootError("The app of the bench did not start: what it said is above.")
        yield int(said)
    finally:
        if child.returncode is None:
            child.terminate()
        await child.wait()


async def _database(postgres: EmbeddedPostgres, name: str, keys: int) -> str:
    connection = await connect(postgres.url, name="bench")
    try:
        await connection.execute(f"CREATE DATABASE {name}")
    finally:
        await connection.close()
    url = postgres.url.removesuffix("/postgres") + f"/{name}"
    await migrate(url)
    connection = await connect(url, name="bench")
    try:
        for first in range(1, keys + 1, 50_000):
            await connection.execute(_SEED, first, min(first + 49_999, keys))
        await connection.execute("VACUUM ANALYZE")
        await connection.execute("CHECKPOINT")
    finally:
        await connection.close()
    console.print(f"{keys:,} keys stored")
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


def _percentiles(times: Sequence[float]) -> dict[str, float]:
    return {"p50": round(statistics.median(times), 2), "p99": round(statistics.quantiles(times, n=100)[-1], 2)}


def _added(times: Sequence[float], bare: Sequence[float]) -> dict[str, float]:
    with_it, without = _percentiles(times), _percentiles(bare)
    return {name: round(with_it[name] - without[name], 2) for name in with_it}


def _show(figures: dict[str, object]) -> None:
    found = {
        f"{kind} {point}": float(figures[name][point])  # type: ignore[index]
        for kind, name in (("local", "local_added_ms"), ("outside", "outside_added_ms"), ("replay", "replay_ms"))
        for point in ("p50", "p99")
    }
    for name, value in found.items():
        goal = GOALS.get(name)
        mark = "·" if goal is None else "[green]✓[/]" if value <= goal else "[red]✗[/]"
        console.print(f"{mark} {name} {value:g} ms" + ("" if goal is None else f" (goal ≤ {goal:g})"))
    growth = float(str(figures["growth_1m"]))
    console.print(f"{'[green]✓[/]' if growth >= GROWTH else '[red]✗[/]'} growth_1m {growth:g} (goal ≥ {GROWTH:g})")
    console.print(f"· ratio_rps {figures['ratio_rps']}, requests/s {figures['rps']}")


def _write(figures: dict[str, object], size: Size) -> None:
    RESULTS.mkdir(exist_ok=True)
    about = {"python": platform.python_version(), "cores": len(os.sched_getaffinity(0)), "size": asdict(size)}
    (RESULTS / "idempotency.json").write_text(json.dumps({**figures, "about": about}, indent=2) + "\n")
    console.print(f"Written to {RESULTS.name}/idempotency.json")


if __name__ == "__main__":
    typer.run(main)
