"""Commands that the demo gives as an operator would: in a terminal of their own, with the operator's token."""

import asyncio
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from surefoot.errors import SurefootError
from surefoot.process_guard import create_guarded_process


class CommandFailed(SurefootError):
    """A command of the demo could not be carried out."""


@dataclass(frozen=True, slots=True)
class Operator:
    """Somebody at a terminal."""

    name: str
    environment: dict[str, str]
    directory: Path
    console: Console

    async def types(self, *arguments: str, well: tuple[int, ...] = (0,)) -> None:
        """Give a command, and let everybody see what it says."""
        self._show(arguments)
        sys.stdout.flush()
        process = await self._start(arguments, None)
        await process.communicate()
        _check(arguments, process.returncode, b"", well)

    async def reads(self, *arguments: str) -> Any:
        """Give a command that answers with JSON."""
        return json.loads(await self.asks("dlq", *arguments, "--json"))

    async def asks(self, *arguments: str) -> str:
        """Give a command that prints one thing, to be used by the next."""
        process = await self._start(arguments, asyncio.subprocess.PIPE)
        said, complained = await process.communicate()
        _check(arguments, process.returncode, complained, (0,))
        return said.decode().strip()

    def _show(self, arguments: tuple[str, ...]) -> None:
        words = " ".join(f'"{word}"' if " " in word else word for word in arguments)
        self.console.print(f"[bold]{self.name}$[/] surefoot {words}")

    async def _start(self, arguments: tuple[str, ...], pipe: int | None) -> asyncio.subprocess.Process:
        return await create_guarded_process(
            *(sys.executable, "-m", "surefoot"),
            *arguments,
            stdout=pipe,
            stderr=pipe,
            cwd=self.directory,
            env={**os.environ, **self.environment},
        )


def _check(arguments: tuple[str, ...], code: int | None, complained: bytes, well: tuple[int, ...]) -> None:
    if code not in well:
        said = complained.decode(errors="replace").strip()
        raise CommandFailed(f"`surefoot {' '.join(arguments[:3])} …` ended with code {code}. {said}")
