"""`surefoot up`, as a newcomer would run it; and when it cannot be: a sentence, and nothing is left behind."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import httpx
import psycopg
import pytest

from surefoot.process_guard import guarded_popen
from tests.support.postgres_servers import open_directory
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow

ENDS_WITHIN_S = 40
FAMILY = "TESTED_FAMILY"
"""Children inherit it: whoever has its value in the environment is one of them."""


@dataclass
class Up:
    directory: Path
    port: int
    sagas_port: int
    dlq_port: int
    payments_port: int
    family: str = field(default_factory=lambda: uuid4().hex)
    process: subprocess.Popen[str] | None = None

    @property
    def ports(self) -> dict[str, int]:
        return {
            "--port": self.port,
            "--sagas-port": self.sagas_port,
            "--dlq-port": self.dlq_port,
            "--payments-port": self.payments_port,
        }

    def start(self) -> subprocess.Popen[str]:
        ports = [f"{option}={port}" for option, port in self.ports.items()]
        self.process = guarded_popen(
            [sys.executable, "-m", "surefoot", "up", "--directory", str(self.directory), *ports],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "COLUMNS": "200", "NO_COLOR": "1", FAMILY: self.family},
        )
        return self.process

    def said_until(self, words: str) -> list[str]:
        assert self.process is not None
        assert self.process.stdout is not None
        lines: list[str] = []
        while not any(words in line for line in lines):
            line = self.process.stdout.readline()
            assert line, "it ended too early:\n" + "".join(lines)
            lines.append(line)
        return lines

    def ended(self) -> tuple[int, str]:
        """Its exit code, and what it said since we last looked."""
        assert self.process is not None
        said, _ = self.process.communicate(timeout=ENDS_WITHIN_S)
        return self.process.returncode, said

    def left(self) -> dict[int, str]:
        """All processes of it that run, with their commands."""
        mark = f"{FAMILY}={self.family}".encode()
        found: dict[int, str] = {}
        for place in Path("/proc").glob("[0-9]*"):
            try:
                if mark in (place / "environ").read_bytes().split(b"\0"):
                    found[int(place.name)] = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:  # gone meanwhile, or somebody else's
                continue
        return {pid: command for pid, command in found.items() if command}  # one that has ended has none

    def kill_all(self) -> None:
        """Kill it as a crash would. Its guard ends the children."""
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
        wait_until(lambda: not self.left(), what="the guard has ended what was left")


@pytest.fixture
def up() -> Iterator[Up]:
    with open_directory() as directory:
        with ExitStack() as taken:
            ports = [taken.enter_context(listener()).getsockname()[1] for _ in range(4)]
        up = Up(directory / "data", *ports)
        yield up
        up.kill_all()


def listener(port: int = 0) -> socket.socket:
    return socket.create_server(("127.0.0.1", port))


def is_open(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def wait_for(port: int) -> None:
    ends = time.monotonic() + ENDS_WITHIN_S
    while not is_open(port):
        assert time.monotonic() < ends, f"nobody listens at {port}"
        time.sleep(0.05)  # nobody tells us: look again


def test_up_runs_until_interrupted_and_keeps_its_data(up: Up) -> None:
    for _ in range(2):
        process = up.start()
        lines = up.said_until("surefoot outbox list")
        url = next(line.split()[1] for line in lines if line.strip().startswith("database"))
        with psycopg.connect(url) as connection:
            connection.execute("CREATE TABLE IF NOT EXISTS kept (n int)")
            connection.execute("INSERT INTO kept VALUES (1)")
            kept = connection.execute("SELECT count(*) FROM kept").fetchone()
        process.send_signal(signal.SIGINT)
        code, rest = up.ended()
        assert code == 0, rest
        assert "Traceback" not in rest
        assert "The data is kept" in rest
        wait_until(lambda: not up.left(), what="nothing of it runs")
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(url)
    assert kept == (2,)


def test_the_dead_letters_are_served_to_whoever_has_the_token_that_was_made(up: Up) -> None:
    up.start()
    lines = up.said_until("surefoot outbox list")
    (said,) = [line.strip() for line in lines if "SUREFOOT_DLQ_TOKEN" in line]
    token = up.directory / "dlq.token"
    assert said == f"export SUREFOOT_DLQ_URL=http://127.0.0.1:{up.dlq_port} SUREFOOT_DLQ_TOKEN=$(cat '{token}')"
    assert token.stat().st_mode & 0o777 == 0o600
    wait_for(up.dlq_port)
    command = f"{said}; {sys.executable} -m surefoot dlq groups"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "Nothing is dead.\n"), done.stderr
    kept = token.read_text()
    assert kept.strip() not in "".join(lines)
    assert up.process is not None
    up.process.send_signal(signal.SIGINT)
    up.ended()
    up.start()
    up.said_until("surefoot outbox list")
    assert token.read_text() == kept


def test_a_payment_is_taken_with_the_key_that_was_made_and_is_published(up: Up) -> None:
    up.start()
    lines = up.said_until("surefoot outbox list")
    (said,) = [line.strip() for line in lines if "PAYMENTS_KEY=" in line]
    key = up.directory / "payments.key"
    assert said == f"export PAYMENTS=http://127.0.0.1:{up.payments_port} PAYMENTS_KEY=$(cat '{key}')"
    for name in ("payments.key", "payments.secret"):
        assert (up.directory / name).stat().st_mode & 0o777 == 0o600
        assert (up.directory / name).read_text().strip() not in "".join(lines)
    wait_for(up.payments_port)
    answer = httpx.post(
        f"http://127.0.0.1:{up.payments_port}/v1/charges",
        json={"amount": {"minor_units": 1999, "currency": "EUR"}},
        headers={"Authorization": f"Bearer {key.read_text().strip()}", "Idempotency-Key": uuid4().hex},
        timeout=30,
        trust_env=False,
    )
    assert (answer.status_code, answer.json()["status"]) == (201, "CAPTURED"), answer.text
    url = next(line.split()[1] for line in lines if line.strip().startswith("database"))
    with psycopg.connect(url, autocommit=True) as connection:
        ends = time.monotonic() + ENDS_WITHIN_S
        published = "SELECT status::text FROM surefoot.outbox_events WHERE event_type = 'charge.captured'"
        while connection.execute(published).fetchone() != ("PUBLISHED",):
            assert time.monotonic() < ends, "the relay has not published it"
            time.sleep(0.05)  # nobody tells us: look again


@pytest.mark.parametrize("option", ["--port", "--sagas-port", "--dlq-port", "--payments-port"])
def test_a_port_that_is_taken_is_told_before_anything_is_started(up: Up, option: str) -> None:
    port = up.ports[option]
    with listener(port):
        up.start()
        code, said = up.ended()
    assert code == 2, said
    (sentence,) = said.splitlines()
    assert f"127.0.0.1:{port}: " in sentence
    assert sentence.endswith(f"Choose another port with {option}.")
    wait_until(lambda: not up.left(), what="nothing of it runs")
    assert not up.directory.exists()


def test_one_port_for_both_is_refused(up: Up) -> None:
    up.sagas_port = up.port
    up.start()
    code, said = up.ended()
    assert (code, said.splitlines()[-1].partition(": ")[0]) == (2, f"The sagas cannot be served at 127.0.0.1:{up.port}")


def test_a_port_that_is_lost_to_another_ends_it_with_a_sentence(up: Up) -> None:
    up.start()
    up.said_until("surefoot outbox list")
    wait_for(up.port)
    (doors,) = [pid for pid, command in up.left().items() if " doors " in command]
    os.kill(doors, signal.SIGKILL)
    with taken_at_once(up.port):
        code, said = up.ended()
    assert code == 2, said
    assert "Traceback" not in said
    assert "doors ended with code -9" in said
    assert said.splitlines()[-1].endswith("Choose another port with --port."), said
    wait_until(lambda: not up.left(), what="nothing of it runs")


def taken_at_once(port: int) -> socket.socket:
    """As soon as it is free. Who is started again takes a second and more before it wants it back."""
    while True:
        try:
            return listener(port)
        except OSError:
            time.sleep(0.01)


def test_when_one_process_cannot_be_started_the_others_are_stopped(up: Up) -> None:
    (up.directory / "sagas.log").mkdir(parents=True)  # where its log should be
    up.start()
    code, said = up.ended()
    assert code == 2, said
    assert "Traceback" not in said
    assert said.splitlines()[-1].startswith("sagas cannot be started, or its log ")
    wait_until(lambda: not up.left(), what="nothing of it runs")
