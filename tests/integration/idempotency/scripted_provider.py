"""A provider that does as it is told, call by call, and remembers under which keys it was called."""

import asyncio
from collections.abc import Awaitable, Callable

from tests.idempotency_provider import Charged

Turn = Callable[[], Awaitable[Charged]]


class ScriptedProvider:
    def __init__(self, *turns: Turn) -> None:
        self._turns = list(turns)
        self.keys: list[str] = []
        self.charges: dict[str, Charged] = {}
        """Those that were made, by key: each once, whatever was answered."""

    async def charge(self, mark: str, amount: float, manner: str, *, key: str) -> Charged:
        self.keys.append(key)
        self.charges.setdefault(key, Charged(f"ch_{len(self.charges)}"))
        if self._turns:
            return await self._turns.pop(0)()
        return self.charges[key]

    async def count(self, mark: str) -> int:
        return len(self.charges)


def raises(error: Exception) -> Turn:
    async def turn() -> Charged:
        raise error

    return turn


async def hangs() -> Charged:
    await asyncio.Event().wait()
    raise AssertionError("nobody waits for that long")
