"""The payments API as `surefoot services payments` runs it: a process that can be killed and started again."""

import asyncio
import os
import re
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import PIPE

from cryptography.fernet import Fernet

from tests.support import processes
from tests.support.services.payment_api_harness import ACME_KEY

START_S = 60
STOP_S = 30
QUICK = {
    "SUREFOOT_PAYMENT_ANSWER_WITHIN": "PT3S",
    "SUREFOOT_IDEMPOTENCY_LEASE": "PT2S",
    "SUREFOOT_IDEMPOTENCY_RENEW_EVERY": "PT0.5S",
    "SUREFOOT_IDEMPOTENCY_GRACE": "PT0.1S",
    "SUREFOOT_IDEMPOTENCY_COMPLETE_EVERY": "PT0.1S",
    "SUREFOOT_IDEMPOTENCY_RETRY_FIRST": "PT0.2S",
}


@dataclass(slots=True)
class ApiProcess:
    database_url: str
    provider_url: str
    log: Path
    secret: str = field(default_factory=lambda: Fernet.generate_key().decode())
    port: int = 0
    """Taken by the first start and kept by the next ones."""
    process: processes.AsyncChild | None = None

    @property
    def at(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self, **environment: str) -> None:
        given = {
            **os.environ,
            **QUICK,
            "SUREFOOT_DATABASE": self.database_url,
            "SUREFOOT_PAYMENT_PROVIDER_URL": self.provider_url,
            "SUREFOOT_PAYMENT_API_KEYS": f'{{"{ACME_KEY}": "acme"}}',
            "SUREFOOT_IDEMPOTENCY_SECRETS": f'["{self.secret}"]',
            "PYTHONWARNINGS": "error",
            "NO_COLOR": "1",
            **environment,
        }
        command = ("surefoot", "services", "payments", "--port", str(self.port))
        with self.log.open("ab") as errors:
            self.process = await processes.start_async(command, environment=given, stdout=PIPE, stderr=errors)
        assert self.process.stdout is not None
        line = (await asyncio.wait_for(self.process.stdout.readline(), START_S)).decode()
        found = re.search(r"http://127\.0\.0\.1:(\d+)/v1/charges", line)
        assert found, f"it did not say where it is: {line!r}\n{self.log.read_text()}"
        self.port = int(found[1])

    async def died(self) -> int:
        """Wait until it has ended by itself; its exit code."""
        assert self.process is not None
        return await asyncio.wait_for(self.process.wait(), STOP_S)

    async def stop(self) -> tuple[int, str]:
        """As Ctrl-C does; its exit code and last words."""
        process = self.process
        assert process is not None
        assert process.stdout is not None
        process.send_signal(signal.SIGINT)
        said, code = await asyncio.wait_for(asyncio.gather(process.stdout.read(), process.wait()), STOP_S)
        return code, said.decode()


@asynccontextmanager
async def api_process(url: str, provider_url: str, directory: Path) -> AsyncIterator[ApiProcess]:
    """Not started yet; ended in any case."""
    api = ApiProcess(url, provider_url, directory / "payments.log")
    try:
        yield api
    finally:
        if api.process is not None:
            await processes.end(api.process)
