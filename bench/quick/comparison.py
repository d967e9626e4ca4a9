"""Both trees side by side: every path of each in a process of its own, measured in turns."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

from bench.quick.ground import Place, Usage, create_database, place
from bench.quick.paths import MeasuredPath
from bench.quick.process import run, start
from bench.quick.trees import Side, Tree
from bench.quick.verdict import Cost, Round
from surefoot.database.embedded import EmbeddedPostgres

WARM_ROUNDS = 2
RUN_S = 160.0
"""For everything, with ten rounds. A quiet machine takes more turns in that time, and its ranges are narrower."""
ROUND_S = 4.0
"""For one path in one round, at most."""
TURNS: tuple[tuple[Side, ...], ...] = (("base", "tree", "tree", "base"), ("tree", "base", "base", "tree"))
"""In this order, what gets slower or faster steadily meanwhile hits both trees alike."""
Say = Callable[[str], None]


@dataclass(slots=True)
class Measured:
    """What was found of one path."""

    rounds: list[Round] = field(default_factory=list)
    statements: dict[Side, Counter[str]] = field(default_factory=lambda: {"base": Counter(), "tree": Counter()})
    units: int = 0
    """In each tree, in all rounds."""
    calls: dict[Side, float] = field(default_factory=dict)
    """Function calls for a unit."""

    @property
    def ratio_of_calls(self) -> float:
        return self.calls["tree"] / self.calls["base"]


async def compare(
    postgres: EmbeddedPostgres, both: Sequence[Tree], paths: Sequence[MeasuredPath], folder: Path, rounds: int, say: Say
) -> dict[str, Measured]:
    ends = time.monotonic() + RUN_S
    measured = {path.name: Measured() for path in paths}
    async with AsyncExitStack() as opened:
        say("preparing the databases")
        async with asyncio.TaskGroup() as group:
            for tree in both:
                group.create_task(_template(postgres, tree, folder))
        places = {
            path.name: {tree.side: await _open(opened, postgres, tree, path, folder) for tree in both} for path in paths
        }
        await _warm_up(paths, places, say)
        for number in range(rounds):
            for at, path in enumerate(paths):
                say(f"round {number + 1} of {rounds}: {path.name}")
                to_come = (rounds - number) * len(paths) - at
                seconds = min(ROUND_S, (ends - time.monotonic()) / to_come)
                used = await _round(path, places[path.name], number, seconds)
                _add(measured[path.name], used, path.units)
        for path in paths:
            say(f"counting calls: {path.name}")
            for side, where in places[path.name].items():
                measured[path.name].calls[side] = await _count_calls(path, where)
    return measured


async def _template(postgres: EmbeddedPostgres, tree: Tree, folder: Path) -> None:
    """A database as this tree wants it: its own tables, and the topics of the workload."""
    url = await create_database(postgres, _template_name(tree))
    await run(tree, "migrate", ["surefoot", "migrate", "--database", url], folder)
    topics = ["surefoot", "topics", "create", "--catalogue", "workload:catalogue", "--database", url]
    await run(tree, "topics", topics, folder)


def _template_name(tree: Tree) -> str:
    return f"quick_{tree.side}"


async def _open(
    opened: AsyncExitStack, postgres: EmbeddedPostgres, tree: Tree, path: MeasuredPath, folder: Path
) -> Place:
    """A copy of the tree's database, with the process on it."""
    name = f"quick_{tree.side}_{path.name.replace(' ', '_')}"
    found = await opened.enter_async_context(place(postgres, name, _template_name(tree)))
    await path.set_up(found)
    command = [part.format(url=found.url, port=found.port) for part in path.command]
    found.process = await start(tree, path.name, command, folder)
    return found


async def _warm_up(paths: Sequence[MeasuredPath], places: Mapping[str, Mapping[Side, Place]], say: Say) -> None:
    """Connections, prepared statements and caches; and then the statistics of the database."""
    for number in range(WARM_ROUNDS):
        for path in paths:
            say(f"warming up: {path.name}")
            await _round(path, places[path.name], number, 0.0)
    for where in places.values():
        for one in where.values():
            await one.connection.execute("ANALYZE")


async def _round(
    path: MeasuredPath, places: Mapping[Side, Place], number: int, seconds: float
) -> dict[Side, list[Usage]]:
    """Take turns until another time would take too long, and at least once."""
    used: dict[Side, list[Usage]] = {"base": [], "tree": []}
    ends = time.monotonic() + seconds
    while True:
        began = time.monotonic()
        for side in TURNS[number % 2]:
            where = places[side]
            await path.prepare(where)
            before = where.read()
            await path.work(where)
            used[side].append(where.used_since(before))
        number += 1
        now = time.monotonic()
        if now + (now - began) > ends:
            return used


async def _count_calls(path: MeasuredPath, where: Place) -> float:
    """After all rounds, because it slows the process down."""
    assert where.process is not None
    await path.prepare(where)
    where.process.switch_counting()
    await path.work(where)
    return where.process.switch_counting() / path.units


def _add(measured: Measured, used: Mapping[Side, Sequence[Usage]], units: int) -> None:
    done = units * len(used["base"])
    measured.rounds.append(Round(_cost(used["base"], done), _cost(used["tree"], done)))
    measured.units += done
    for side, usages in used.items():
        for usage in usages:
            measured.statements[side] += usage.statements


def _cost(usages: Sequence[Usage], units: int) -> Cost:
    return Cost(
        sum(usage.processor_ns for usage in usages) / units / 1000,
        sum(usage.statements.total() for usage in usages) / units,
    )
