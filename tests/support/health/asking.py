"""Processes with a port for their health, and what they answer there."""

import os
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tests.support import processes
from tests.support.ports import free_port
from tests.support.waiting import eventually


@dataclass(frozen=True, slots=True)
class Asked:
    process: processes.AsyncChild
    port: int
    log: Path

    async def ask(self, path: str, method: str = "GET") -> httpx.Response:
        async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
            return await client.request(method, f"http://127.0.0.1:{self.port}{path}")

    async def says(self, path: str, status: int) -> dict[str, Any]:
        """Ask until it answers so; what it said."""

        async def said() -> dict[str, Any] | None:
            assert self.process.returncode is None, self.log.read_text()
            try:
                answer = await self.ask(path)
            except httpx.TransportError:
                return None  # it does not listen yet
            return answer.json() if answer.status_code == status else None

        found = await eventually(said, what=f"{path} answers {status}: {self.log.read_text()}")
        assert found is not None
        return found

    async def is_wrong(self, check: str) -> dict[str, Any]:
        """Ask until it is not ready because of this; what it said."""

        async def said() -> dict[str, Any] | None:
            answer = await self.ask("/readyz")
            body: dict[str, Any] = answer.json()
            return body if answer.status_code == 503 and check in wrong(body) else None

        found = await eventually(said, what=f"it is not ready because of its {check}: {self.log.read_text()}")
        assert found is not None
        return found

    async def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return await self.process.wait()


def wrong(body: Mapping[str, Any]) -> dict[str, str]:
    """The checks that are not ok, with their sentences."""
    return {check["name"]: check["sentence"] for check in body["checks"] if not check["ok"]}


def right(body: Mapping[str, Any]) -> set[str]:
    return {check["name"] for check in body["checks"] if check["ok"]}


@asynccontextmanager
async def asked(
    command: Sequence[str], url: str, directory: Path, environment: Mapping[str, str] | None = None
) -> AsyncIterator[Asked]:
    """A process. It is killed if a test leaves it running."""
    port = free_port()
    log = directory / f"{port}.log"
    clean = {name: value for name, value in os.environ.items() if not name.startswith("SUREFOOT_")}
    given = {**clean, "SUREFOOT_DATABASE": url, "SUREFOOT_METRICS_PORT": str(port), **(environment or {})}
    with log.open("wb") as output:
        process = await processes.start_async(command, environment=given, stdout=output, stderr=output)
    try:
        yield Asked(process, port, log)
    finally:
        await processes.end(process)
