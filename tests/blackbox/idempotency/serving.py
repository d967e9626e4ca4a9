"""A server as a child process: it takes a free port and prints it; it is ended with the test."""

import os
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from surefoot.process_guard import guarded_popen

READY = "listening at "
START_TIMEOUT_S = 60
STOP_TIMEOUT_S = 10


@contextmanager
def served(command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None) -> Iterator[str]:
    """The address of a server that says "listening at http://…" on a line of its own."""
    with log.open("wb") as errors:
        process = guarded_popen(
            command,
            stdout=subprocess.PIPE,
            stderr=errors,
            env={**os.environ, **(environment or {})},
            text=True,
        )
    try:
        yield _address(process, log)
    finally:
        process.terminate()
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        assert process.stdout is not None
        process.stdout.close()


def _address(process: "subprocess.Popen[str]", log: Path) -> str:
    """Read what it prints until the address comes. The timer ends a server that never prints it."""
    assert process.stdout is not None
    timer = threading.Timer(START_TIMEOUT_S, process.kill)
    timer.start()
    try:
        for line in process.stdout:
            if line.startswith(READY):
                return line.removeprefix(READY).strip()
    finally:
        timer.cancel()
    raise AssertionError(f"the server did not start:\n{log.read_text()}")
