"""Programs of ours that tests start: forked from the fork server, each a process that can be killed and frozen.

`start` and `run` are for tests without an event loop, `start_async` and `run_async` for those with one.
"""

import asyncio
import atexit
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, NamedTuple

from tests.support.fork_server import Request

ROOT = Path(__file__).parents[2]
_POLL_S = 0.005
_RUN_WITHIN_S = 150


class Done(NamedTuple):
    """What a program has said, and its exit code."""

    code: int
    out: str
    err: str


@dataclass
class Statistics:
    """What starting processes has cost this test process."""

    started: int = 0
    seconds: float = 0.0


statistics = Statistics()


class ForkServer:
    """This test process's own fork server, started when it is first needed."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-m", "tests.support.fork_server", str(theirs.fileno())]
            # A session of its own: it outlives Ctrl-C, to end its children when this process closes the socket.
            self._process = subprocess.Popen(
                command, pass_fds=[theirs.fileno()], cwd=ROOT, start_new_session=True, stdin=subprocess.DEVNULL
            )
        self._socket = ours
        self._codes: dict[int, int] = {}
        self._unread = b""
        self._lock = threading.Lock()  # some tests run several commands in threads
        atexit.register(self._end)

    def start(self, request: Request, streams: Sequence[int]) -> int:
        """Fork a child with these streams as its standard input, output and error; its process id."""
        began = time.perf_counter()
        with self._lock:
            self._socket.setblocking(True)
            text = request.encode()
            sent = socket.send_fds(self._socket, [text], list(streams))
            self._socket.sendall(text[sent:])
            started: int | None = None
            while started is None:
                started = self._read()
            statistics.started += 1
            statistics.seconds += time.perf_counter() - began
            return started

    def code(self, pid: int) -> int | None:
        """The child's exit code, negative for a signal; None while it runs."""
        with self._lock:
            self._socket.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                while True:
                    self._read()
            return self._codes.get(pid)

    def _end(self) -> None:
        self._socket.close()
        self._process.wait()

    def _read(self) -> int | None:
        """Take what the server has said. The id of the child that was started, if that was among it."""
        text = self._socket.recv(1 << 16)
        if not text:
            raise RuntimeError(f"The fork server ended with code {self._process.wait()}; its output says why.")
        *lines, self._unread = (self._unread + text).split(b"\n")
        started = None
        for line in lines:
            said = json.loads(line)
            if "started" in said:
                started = said["started"]
                self._codes.pop(started, None)  # the id may have been another child's before
            else:
                self._codes[said["ended"]] = said["code"]
        return started


_server: ForkServer | None = None
_starting = threading.Lock()


def fork_server() -> ForkServer:
    global _server
    with _starting:
        if _server is None:
            _server = ForkServer()
        return _server


@dataclass
class Child:
    """A process that was forked. It has what tests use of `subprocess.Popen`."""

    pid: int
    stdout: IO[str] | None = None
    stderr: IO[str] | None = None
    _code: int | None = field(default=None, repr=False)

    @property
    def returncode(self) -> int | None:
        if self._code is None:
            self._code = fork_server().code(self.pid)
        return self._code

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):  # it has ended, and the server has not told of it yet
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def wait(self, timeout: float = _RUN_WITHIN_S) -> int:
        deadline = time.monotonic() + timeout
        while (code := self.returncode) is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(str(self.pid), timeout)
            time.sleep(_POLL_S)  # the fork server reaps it, and tells of it when it is asked
        return code

    def communicate(self, timeout: float = _RUN_WITHIN_S) -> tuple[str, str]:
        """Wait for its end; what it has said since it was last read."""
        self.wait(timeout)
        said = [stream.read() if stream is not None else "" for stream in (self.stdout, self.stderr)]
        self.close()
        return said[0], said[1]

    def close(self) -> None:
        for stream in (self.stdout, self.stderr):
            if stream is not None:
                stream.close()


@dataclass
class AsyncChild:
    """The same for tests with an event loop: what they use of `asyncio.subprocess.Process`."""

    child: Child
    stdout: asyncio.StreamReader | None = None
    stderr: asyncio.StreamReader | None = None

    @property
    def pid(self) -> int:
        return self.child.pid

    @property
    def returncode(self) -> int | None:
        return self.child.returncode

    def send_signal(self, number: int) -> None:
        self.child.send_signal(number)

    def terminate(self) -> None:
        self.child.terminate()

    def kill(self) -> None:
        self.child.kill()

    async def wait(self) -> int:
        while self.returncode is None:  # noqa: ASYNC110  # the fork server tells of its end when it is asked
            await asyncio.sleep(_POLL_S)
        return self.returncode

    async def communicate(self) -> tuple[bytes, bytes]:
        out, err, _ = await asyncio.gather(_read(self.stdout), _read(self.stderr), self.wait())
        return out, err


async def end(*children: AsyncChild) -> None:
    """Kill those that still run, and wait for all of them."""
    for child in children:
        child.kill()
    await asyncio.gather(*(child.wait() for child in children))


Stream = int | IO[bytes] | None
"""PIPE, a file that is open, or None for what the tests themselves write to."""


def start(
    command: Sequence[str],
    *,
    environment: Mapping[str, str] | None = None,
    directory: Path = ROOT,
    stdout: Stream = None,
    stderr: Stream = None,
) -> Child:
    """Start `python -m` with this command. What is written to a pipe is read as text."""
    child, out, err = _start(command, environment, directory, stdout, stderr)
    child.stdout, child.stderr = (None if end is None else open(end) for end in (out, err))  # noqa: PTH123, SIM115
    return child


async def start_async(
    command: Sequence[str],
    *,
    environment: Mapping[str, str] | None = None,
    directory: Path = ROOT,
    stdout: Stream = None,
    stderr: Stream = None,
) -> AsyncChild:
    """Start `python -m` with this command, from within an event loop."""
    child, out, err = _start(command, environment, directory, stdout, stderr)
    return AsyncChild(child, await _reader(out), await _reader(err))


def run(
    command: Sequence[str],
    *,
    environment: Mapping[str, str] | None = None,
    directory: Path = ROOT,
    within_s: float = _RUN_WITHIN_S,
) -> Done:
    """Run `python -m` with this command to its end."""
    with TemporaryFile() as out, TemporaryFile() as err:
        child = start(command, environment=environment, directory=directory, stdout=out, stderr=err)
        try:
            child.wait(within_s)
        finally:
            child.kill()
        return Done(child.wait(), _text(out), _text(err))


async def run_async(
    command: Sequence[str],
    *,
    environment: Mapping[str, str] | None = None,
    directory: Path = ROOT,
    within_s: float = _RUN_WITHIN_S,
) -> Done:
    """The same, from within an event loop."""
    with TemporaryFile() as out, TemporaryFile() as err:
        child = await start_async(command, environment=environment, directory=directory, stdout=out, stderr=err)
        try:
            await asyncio.wait_for(child.wait(), within_s)
        finally:
            child.kill()
        return Done(await child.wait(), _text(out), _text(err))


def _start(
    command: Sequence[str], environment: Mapping[str, str] | None, directory: Path, stdout: Stream, stderr: Stream
) -> tuple[Child, int | None, int | None]:
    """The child, and the ends of the pipes to read what it writes."""
    module, *arguments = command
    request = Request(module, arguments, dict(os.environ if environment is None else environment), str(directory))
    with ExitStack() as given:
        nothing = given.enter_context(open(os.devnull, "rb"))  # noqa: PTH123
        out, read_out = _stream(stdout, 1, given)
        err, read_err = (out, None) if stderr == subprocess.STDOUT else _stream(stderr, 2, given)
        pid = fork_server().start(request, [nothing.fileno(), out, err])
    return Child(pid), read_out, read_err


def _stream(wanted: Stream, inherited: int, given: ExitStack) -> tuple[int, int | None]:
    """What the child writes to, and the end of the pipe to read it from, if it is one."""
    if wanted is None:
        return inherited, None
    if wanted == subprocess.PIPE:
        reading, writing = os.pipe()
        given.callback(os.close, writing)
        return writing, reading
    assert not isinstance(wanted, int)
    return wanted.fileno(), None


async def _reader(end: int | None) -> asyncio.StreamReader | None:
    if end is None:
        return None
    reader = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(reader)
    await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, os.fdopen(end, "rb"))
    return reader


async def _read(reader: asyncio.StreamReader | None) -> bytes:
    return b"" if reader is None else await reader.read()


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")
