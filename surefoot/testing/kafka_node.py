"""Apache Kafka itself, one KRaft node, as a child process that a test can stop, kill, freeze and start again.

A restart keeps the port and the data, so that an outage looks to clients as a real one does.
"""

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Self

from surefoot.errors import ConfigurationError, LogUnavailable
from surefoot.log.kafka.aiokafka_typed import KafkaError, new_admin
from surefoot.log.kafka.settings import KafkaSettings
from surefoot.process_guard import guarded_popen, remove_with_me
from surefoot.testing.kafka_jars import ClassArchive, kafka_jars

PROBE_TIMEOUT = timedelta(seconds=2)


def answers(address: str) -> bool:
    """Ask once, briefly. May be called from within a running event loop too (it then blocks that loop)."""
    if not _port_is_open(address):
        return False  # aiokafka would log an error for each try
    with ThreadPoolExecutor(1) as apart:
        return apart.submit(asyncio.run, _metadata(address)).result()


async def _metadata(address: str) -> bool:
    settings = KafkaSettings(bootstrap_servers=address, request_timeout=PROBE_TIMEOUT)
    admin = new_admin(settings)
    try:
        async with asyncio.timeout(PROBE_TIMEOUT.total_seconds()):
            await admin.start()
            return bool((await admin.describe_cluster())["brokers"])
    except (KafkaError, OSError):  # TimeoutError is an OSError
        return False
    finally:
        await admin.close()


def _port_is_open(address: str) -> bool:
    host, _, port = address.split(",")[0].rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=PROBE_TIMEOUT.total_seconds()):
            return True
    except OSError:
        return False


START_TIMEOUT_S = 60
STOP_TIMEOUT_S = 30
_CLUSTER_ID = "Surefoot1Surefoot1Test"  # letters and digits: an id that begins with "-" is read as an option

_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller_port}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
inter.broker.listener.name=PLAINTEXT
controller.listener.names=CONTROLLER
log.dirs={data}
offsets.topic.num.partitions=4
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
auto.create.topics.enable=false
broker.heartbeat.interval.ms=500
broker.session.timeout.ms=2000
"""
# The last two: after a kill the controller takes the broker back only when its old session has run out, 9 s by default.

SHORT_LIVED = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""For a broker that lives for one test: it compiles less, and starts in two thirds of the processor time."""


class LocalKafka:
    """One broker on this machine, which ends with this process.

    Args:
        directory: Where its data is kept. Without one, a temporary directory is used and removed at the end.
        port: Where it listens; a free port if 0.
        java_options: More options for the virtual machine, for example `SHORT_LIVED`.
    """

    def __init__(self, directory: Path | None = None, *, port: int = 0, java_options: Sequence[str] = ()) -> None:
        self._temporary = directory is None
        self.directory = directory or Path(tempfile.mkdtemp(prefix="surefoot-kafka-"))
        if self._temporary:
            remove_with_me(self.directory)
        self._java_options = java_options
        self._port = port
        self._controller_port = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._archive: ClassArchive | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._port}"

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    def start(self) -> str:
        """Start the broker, and return its address when a metadata request is answered."""
        if self.pid is not None:
            return self.address
        java, jars = _java(), kafka_jars()
        properties = self._prepare(java, jars)
        self._archive = ClassArchive(java, jars)
        command = [
            *[java, "-Xmx512m", *self._archive.options, *self._java_options],
            *["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"],
            *["-cp", f"{jars}/*", "kafka.Kafka", str(properties)],
        ]
        with self._log.open("ab") as log:
            self._process = guarded_popen(command, stdout=log, stderr=log)
        self._wait_until_ready()
        return self.address

    def stop(self) -> None:
        """End the broker cleanly."""
        if self._process is None:
            return
        self.thaw()
        self._process.terminate()
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            return
        self._process = None
        if self._archive is not None:
            self._archive.keep()

    def kill(self) -> None:
        """End the broker as a crash would."""
        if self._process is None:
            return
        self._process.kill()
        self._process.wait()
        self._process = None

    def freeze(self) -> None:
        """Stop the broker in its tracks: connections stay open, nothing is answered once this returns."""
        self._signal(signal.SIGSTOP)
        # A process of many threads goes on for a while after the signal was sent.
        while self.pid is not None and os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WNOHANG) is None:
            time.sleep(0.005)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def remove(self) -> None:
        """End the broker and, if its directory was a temporary one, delete it."""
        self.stop()
        if self._temporary:
            shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()

    @property
    def _log(self) -> Path:
        return self.directory / "server.log"

    def _signal(self, number: signal.Signals) -> None:
        if self.pid is not None:
            os.kill(self.pid, number)

    def _prepare(self, java: str, jars: Path) -> Path:
        data = self.directory / "data"
        self._port = self._port or _free_port()
        self._controller_port = self._controller_port or _free_port()
        properties = self.directory / "server.properties"
        self.directory.mkdir(parents=True, exist_ok=True)
        properties.write_text(
            _PROPERTIES.format(port=self._port, controller_port=self._controller_port, data=data.resolve())
        )
        if not (data / "meta.properties").exists():
            formatted = jars.with_name("formatted")
            if not formatted.is_dir():
                _format(java, jars, properties, data)
                _publish_copy(data, formatted)
            else:
                shutil.copytree(formatted, data, dirs_exist_ok=True)
        return properties

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while not answers(self.address):
            ended = self._process is None or self._process.poll() is not None
            if ended or time.monotonic() > deadline:
                self.kill()
                tail = self._log.read_text(errors="replace")[-800:]
                how = "ended" if ended else f"did not answer within {START_TIMEOUT_S} s"
                raise LogUnavailable(f"The Kafka in {self.directory} {how}. Its log ends:\n{tail}")
            time.sleep(0.1)


def _format(java: str, jars: Path, properties: Path, data: Path) -> None:
    command = [java, "-cp", f"{jars}/*", "kafka.tools.StorageTool", "format"]
    command += ["--cluster-id", _CLUSTER_ID, "-c", str(properties)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ConfigurationError(f"Kafka could not prepare {data}. It said:\n{(done.stdout + done.stderr)[-800:]}")


def _publish_copy(data: Path, cached: Path) -> None:
    """Keep a formatted directory for the next broker: formatting takes a virtual machine of its own."""
    with tempfile.TemporaryDirectory(dir=cached.parent, prefix="formatted-") as temporary:
        copy = shutil.copytree(data, Path(temporary) / "data")
        with contextlib.suppress(OSError):  # another process was first
            copy.rename(cached)


def _java() -> str:
    java = shutil.which("java")
    if java is None:
        raise ConfigurationError(
            "Kafka needs Java 17: install it and Maven (or Docker), or set SUREFOOT_KAFKA to a broker."
        )
    return java


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
