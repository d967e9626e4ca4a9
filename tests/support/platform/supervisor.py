"""Whoever starts the platform's processes again when they end, as systemd or Kubernetes would, and remembers how they
ended and what they said.
"""

import asyncio
import signal
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from services.local_platform.platform import Platform

AGAIN_S = 0.3
AT_WORK = {
    "provider": "The provider is at http://",
    "relay": "relay starts",
    "payment": "services start",
    "shop": "services start",
    "orchestrator": "partitions",
}
"""What each kind of process says when it has found all that it needs, and begins."""
TAIL = 2_000


@dataclass(frozen=True, slots=True)
class Ending:
    name: str
    code: int
    said: str
    """All that it said in its life."""

    @property
    def by_itself(self) -> bool:
        return self.code != -signal.SIGKILL

    @property
    def at_work(self) -> bool:
        return AT_WORK[self.name] in self.said

    def __str__(self) -> str:
        return f"{self.name} ended with {self.code}; it had said:\n{self.said[-TAIL:]}"


class Supervisor:
    def __init__(self, platform: Platform) -> None:
        self.platform = platform
        self.killed: Counter[str] = Counter()
        self.endings: list[Ending] = []
        self._stopping = asyncio.Event()
        self._keeping: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        self._keeping = [asyncio.create_task(self._keep(name)) for name in self.platform.commands]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    @property
    def kinds(self) -> list[str]:
        return list(self.platform.commands)

    def kill(self, name: str) -> None:
        """SIGKILL, whatever it is doing: working, or only just starting."""
        child = self.platform.running.get(name)
        if child is not None and child.is_alive:
            child.kill()
            self.killed[name] += 1

    async def stop(self) -> dict[str, int | None]:
        """Ask all of them to finish, and wait for it. Their exit codes."""
        self._stopping.set()
        pending = set(self._keeping)
        while pending:  # one that was only just started has to be asked as well
            await self.platform.stop_all()
            _, pending = await asyncio.wait(pending, timeout=0.1)
        for task in self._keeping:
            task.result()
        return {name: child.process.returncode for name, child in self.platform.running.items()}

    def fell(self) -> list[Ending]:
        """Those that ended by themselves though they had been at work, for an outage is to be waited for; and those
        that could not begin and did not say so in a sentence."""
        return [one for one in self.endings if one.by_itself and (one.at_work or "Traceback" in one.said)]

    def told(self) -> str:
        """How the last ones ended, and what those that run have said."""
        endings = [f"--- {ending}" for ending in self.endings[-5:]]
        return "\n".join([*endings, *(f"--- {name}\n{tail_of(self.platform.log_of(name))}" for name in self.kinds)])

    async def _keep(self, name: str) -> None:
        log = self.platform.log_of(name)
        while not self._stopping.is_set():
            before = log.stat().st_size if log.exists() else 0
            child = await self.platform.start(name)
            code = await child.process.wait()
            if self._stopping.is_set():
                return
            ending = Ending(name, code, log.read_bytes()[before:].decode(errors="replace"))
            self.endings.append(ending)
            if ending.by_itself:
                await asyncio.sleep(AGAIN_S)  # what it missed may be back then


def tail_of(log: Path) -> str:
    return log.read_text(errors="replace")[-TAIL:] if log.exists() else "(it said nothing)"
