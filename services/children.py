"""Child processes of `surefoot demo` and `surefoot up`: started, watched, stopped by their own id."""

import asyncio
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

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
    """Start `surefoot <arguments>` with its output in a file. Ctrl-C reaches us alone; we tell the children."""
    with log.open("ab") as output:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "surefoot",
            *arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            env={**os.environ, **(environment or {})},
        )
    return Child(name, process, log)
