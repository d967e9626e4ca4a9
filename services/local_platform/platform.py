"""The whole platform on this machine, one process of each kind: what `surefoot demo` and `surefoot up` run.

    platform = Platform(url, directory)
    await platform.prepare()
    await platform.start_all()
    …
    await platform.stop_all()

The processes end when the command that started them ends, also when it is killed.
"""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from schemas import catalogue
from services.settings import SERVICES, ServiceSettings
from services.tables import create_tables
from surefoot.cli.process import event_log
from surefoot.cli.topics import declared
from surefoot.database.migrate import migrate
from surefoot.database.schema import DEFAULT_SCHEMA
from surefoot.process_guard import create_guarded_process

ROOT = Path(__file__).resolve().parents[2]
"""Where the folders of the platform are: `python -m outbox_publisher` is run from here."""
STOP_TIMEOUT_S = 15
PAYMENT = ("payment",)
OTHERS = ("checkout", "order", "warehouse", "shipping", "returns", "notification", "flow")


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


async def start_child(name: str, *command: str, log: Path, environment: dict[str, str] | None = None) -> Child:
    """Start `python -m <command>` with its output in a file. Ctrl-C reaches the parent, which stops its children."""
    with log.open("ab") as output:
        process = await create_guarded_process(
            *(sys.executable, "-m", *command),
            stdout=output,
            stderr=output,
            cwd=ROOT,
            env={**os.environ, **(environment or {})},
        )
    return Child(name, process, log)


class Platform:
    def __init__(
        self,
        url: str,
        directory: Path,
        *,
        kafka: str | None = None,
        environment: dict[str, str] | None = None,
        provider: tuple[str, ...] = (),
    ) -> None:
        """`provider`: how the simulated provider behaves, as options of its command."""
        self.url = url
        self.settings = ServiceSettings(database=url)
        self.running: dict[str, Child] = {}
        self._directory = directory
        self._kafka = kafka
        self.provider_port = free_port()
        self._environment = {
            "SUREFOOT_PAYMENT_PROVIDER_URL": f"http://127.0.0.1:{self.provider_port}",
            **(environment or {}),
        }
        where = ("--database", url)
        log = ("--kafka", kafka) if kafka else ()
        # Each is run by `python -m`.
        self.commands: dict[str, tuple[str, ...]] = {
            "provider": ("surefoot", "services", "provider", "--port", str(self.provider_port), *where, *provider),
            "relay": ("outbox_publisher", *where, *log),
            "payment": ("consumers", *PAYMENT, *where, *log),
            "shop": ("consumers", *OTHERS, *where, *log),
            "orchestrator": ("orchestrator", *where, *log),
        }

    def serve_dead_letters(self, port: int) -> None:
        """Run the dead-letter service, too. It lets nobody in without a token: make one before it is started."""
        log = ("--kafka", self._kafka) if self._kafka else ()
        self.commands["dlq"] = ("dlq", "--port", str(port), "--database", self.url, *log)

    def serve_payments(self, port: int, environment: Mapping[str, str]) -> None:
        """Run the payments API, too. `environment`: whom it lets in, and what it encrypts with."""
        self.commands["payments"] = ("surefoot", "services", "payments", "--port", str(port), "--database", self.url)
        self._environment.update(environment)

    async def prepare(self) -> None:
        """Tables and topics. Doing it again changes nothing."""
        await migrate(self.url)
        for service in SERVICES:
            await create_tables(self.settings.database_of(service), service)
        async with event_log(self._kafka, self.url, DEFAULT_SCHEMA) as log:
            await log.create(declared(catalogue))

    async def start(self, name: str) -> Child:
        child = self.running[name] = await start_child(
            name, *self.commands[name], log=self.log_of(name), environment=self._environment
        )
        return child

    async def start_all(self) -> None:
        for name in self.commands:
            await self.start(name)

    async def kill(self, name: str) -> None:
        """As a power cut would; it is gone when this returns."""
        self.running[name].kill()
        await self.running[name].process.wait()

    async def stop_all(self) -> None:
        await asyncio.gather(*(child.stop() for child in self.running.values()))

    def log_of(self, name: str) -> Path:
        return self._directory / f"{name}.log"


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])
