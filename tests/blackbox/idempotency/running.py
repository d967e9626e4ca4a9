"""Playing cases against a target, some at a time, each within a time limit."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import httpx

from tests.blackbox.idempotency.case import Case, CaseFailed
from tests.blackbox.idempotency.server import Server, connected
from tests.blackbox.idempotency.target import Target

AT_ONCE = 4
TIMES_PATIENCE = 3
"""A case waits for several things, one after another."""


@dataclass(frozen=True, slots=True)
class Outcome:
    case: Case
    failure: str | None
    """None: it passed."""


async def play(case: Case, target: Target) -> Outcome:
    async with connected(target) as server:
        return Outcome(case, await _failure(case, server))


async def play_all(
    cases: Iterable[Case], target: Target, told: Callable[[Outcome], None] = lambda _: None
) -> list[Outcome]:
    """In the order of the cases; `told` hears of each when it is done."""
    turns = asyncio.Semaphore(AT_ONCE)

    async def one(case: Case) -> Outcome:
        async with turns:
            outcome = await play(case, target)
        told(outcome)
        return outcome

    return list(await asyncio.gather(*(one(case) for case in cases)))


async def _failure(case: Case, server: Server) -> str | None:
    try:
        async with asyncio.timeout(server.target.patience_s * TIMES_PATIENCE):
            await case.play(server)
    except CaseFailed as failed:
        return str(failed)
    except TimeoutError:
        return "it did not come to an end"
    except (httpx.HTTPError, OSError) as broken:
        return f"the connection failed: {type(broken).__name__}: {broken}"
    except (KeyError, ValueError) as missing:
        return f"an answer does not have what it should: {missing!r}"
    return None
