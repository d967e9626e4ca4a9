"""The simulated provider as a process of its own, on a free port, that can be killed and started again."""

import asyncio
import os
import re
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import PIPE
from typing import Any

import httpx

from tests.support import processes

START_S = 30
STOP_S = 15


@dataclass(slots=True)
class ProviderProcess:
    database_url: str
    options: tuple[str, ...]
    log: Path
    port: int = 0
    """Taken by the first start and kept by the next ones."""
    process: processes.AsyncChild | None = None
    said: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        command = ["services.provider", "--port", str(self.port), "--database", self.database_url, *self.options]
        with self.log.open("ab") as errors:
            environment = {**os.environ, "NO_COLOR": "1"}
            self.process = await processes.start_async(command, environment=environment, stdout=PIPE, stderr=errors)
        assert self.process.stdout is not None
        line = (await asyncio.wait_for(self.process.stdout.readline(), START_S)).decode()
        self.said.append(line)
        found = re.search(r"http://127\.0\.0\.1:(\d+)", line)
        assert found, f"it did not say where it is: {line!r}\n{self.log.read_text()}"
        self.port = int(found[1])

    async def kill(self) -> None:
        """As a power cut would."""
        await self._end(signal.SIGKILL)

    async def stop(self) -> int:
        """As Ctrl-C does; the exit code."""
        return await self._end(signal.SIGINT)

    async def _end(self, number: int) -> int:
        process = self.process
        assert process is not None
        if process.returncode is None:
            process.send_signal(number)
        assert process.stdout is not None
        rest, code = await asyncio.wait_for(asyncio.gather(process.stdout.read(), process.wait()), STOP_S)
        self.said.append(rest.decode())
        return code

    async def behave(self, behaviour: str, **options: Any) -> None:
        """Misbehave towards `order_id=…`, `key=…` or `share=…`; what else is given goes with it."""
        match = {name: options.pop(name) for name in ("order_id", "key", "share") if name in options}
        answer = await self.post("/behaviour", {"match": match, "behaviour": behaviour, **options})
        assert answer.status_code == 201, answer.text

    async def post(self, path: str, body: dict[str, Any], key: str | None = None) -> httpx.Response:
        headers = {} if key is None else {"Idempotency-Key": key}
        async with httpx.AsyncClient(base_url=self.url, timeout=10) as client:
            return await client.post(path, json=body, headers=headers)

    async def get(self, path: str) -> dict[str, Any]:
        async with httpx.AsyncClient(base_url=self.url, timeout=10) as client:
            answer: dict[str, Any] = (await client.get(path)).json()
            return answer

    async def sums(self) -> tuple[int, int, int]:
        """Charges made, minor units taken, minor units given back; of the one currency that the tests use."""
        sums = (await self.get("/ledger"))["sums"]
        return (sums[0]["charges"], sums[0]["captured"], sums[0]["refunded"]) if sums else (0, 0, 0)


@asynccontextmanager
async def provider_running(database_url: str, directory: Path, *options: str) -> AsyncIterator[ProviderProcess]:
    provider = ProviderProcess(database_url, options, directory / "provider.log")
    await provider.start()
    try:
        yield provider
    finally:
        if provider.process is not None and provider.process.returncode is None:
            await provider.kill()
