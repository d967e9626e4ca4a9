"""Child processes of `surefoot demo` and `surefoot up`: started, watched, stopped by their own id.

They end when the command that started them ends, also when it is killed.
"""

import asyncio
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

from surefoot.process_guard import create_guarded_process

STOP_TIMEOUT_S = 15


@dataclass(slots=True)
class Child:
    name: str
    process: asyncio.subprocess.Process
    log: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def is_alive(self) -> bool:
        return self.process.returncode is None

    def kill(self) -> None:
        """As a power cut would."""
        if self.is_alive:
            self.process.send_signal(signal.SIGKILL)

    async def stop(self) -> None:
        """Ask it to finish what it does; insist after a while."""
        if self.is_alive:
            self.process.send_signal(signal.SIGTERM)
            try:
                await asyncio.wait_for(self.process.wait(), STOP_TIMEOUT_S)
            except TimeoutError:
                self.kill()
        await self.process.wait()


async def start(name: str, *arguments: str, log: Path, environment: dict[str, str] | None = None) -> Child:
    """Start `surefoot <arguments>` with its output in a file. Ctrl-C reaches the parent, which stops its children."""
    with log.open("ab") as output:
        process = await create_guarded_process(
            *(sys.executable, "-m", "surefoot"),
            *arguments,
            stdout=output,
            stderr=output,
            env={**os.environ, **(environment or {})},
        )
    return Child(name, process, log)
