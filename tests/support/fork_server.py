"""The fork server: a process that has imported the platform once, and forks a child for each program a test starts.

A child costs milliseconds instead of the second that the imports take, and is a process like any other: a test can kill
it and freeze it. The server has one thread and no event loop, because neither would survive the fork; it checks that
before each fork.

It reads one request at a time from a socket: a line of JSON, with the child's three standard streams attached. It
answers with the child's id, and tells of each child's end. When the socket closes, the tests have ended, and the server
ends its children and itself.
"""

import asyncio
import contextlib
import gc
import importlib
import io
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import sys
import threading
import traceback
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NoReturn

from surefoot import failpoints
from tests.support import evidence

PACKAGES = ("surefoot", "schemas", "outbox_publisher", "consumers", "orchestrator", "dlq", "services")
LEFT_OUT = ("__main__", "surefoot.database.migrations", "consumers.statistics", "surefoot.testing")
"""What runs when it is imported, and what few tests need: Faust changes the process that imports it."""


@dataclass(frozen=True, slots=True)
class Request:
    """A program to run as `python -m module arguments`."""

    module: str
    arguments: list[str]
    environment: dict[str, str]
    directory: str

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode() + b"\n"


class CannotFork(Exception):
    """The server has something that a fork would break."""


def check_forkable() -> None:
    """Raise if this process has a second thread or an event loop: a child would have half of either."""
    threads = [thread.name for thread in threading.enumerate()]
    tasks = Path("/proc/self/task")
    native = len(list(tasks.iterdir())) if tasks.exists() else 1
    if len(threads) > 1 or native > 1:
        raise CannotFork(f"The fork server has {max(native, len(threads))} threads: {', '.join(threads)}.")
    if getattr(asyncio.get_event_loop_policy(), "_local")._loop is not None:  # noqa: B009  # no public way to ask
        raise CannotFork("The fork server has an event loop.")


def serve(requests: socket.socket) -> None:
    """Fork children until the other end of the socket closes."""
    woken, wake = socket.socketpair()
    for one in (woken, wake):
        one.setblocking(False)
    signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the tests' to handle
    children: set[int] = set()
    try:
        _serve(requests, woken, wake, children)
    except ConnectionError:
        pass  # the tests have ended in the middle of a word
    finally:
        for child in children:
            _kill_group(child)


def _serve(requests: socket.socket, woken: socket.socket, wake: socket.socket, children: set[int]) -> None:
    while True:
        ready, _, _ = select.select([requests, woken], [], [])
        if woken in ready:
            _drain(woken)
            _report_ended(requests, children)
        if requests in ready:
            text, streams, _, _ = socket.recv_fds(requests, 1 << 16, 3)
            while text and not text.endswith(b"\n"):
                more = requests.recv(1 << 16)
                text = text + more if more else b""
            if not text:
                return
            pid = _fork(Request(**json.loads(text)), streams, (requests, woken, wake))
            children.add(pid)
            requests.sendall(json.dumps({"started": pid}).encode() + b"\n")


def _fork(request: Request, streams: list[int], ours: tuple[socket.socket, ...]) -> int:
    check_forkable()
    pid = os.fork()
    if pid == 0:
        signal.set_wakeup_fd(-1)
        for one in ours:
            one.close()
        _become(request, streams)
    os.setpgid(pid, pid)  # here and in the child: whichever is first, its group is there when it is to be ended
    for stream in streams:
        os.close(stream)
    return pid


def _report_ended(requests: socket.socket, children: set[int]) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        children.discard(pid)
        requests.sendall(json.dumps({"ended": pid, "code": os.waitstatus_to_exitcode(status)}).encode() + b"\n")


def _drain(woken: socket.socket) -> None:
    try:
        while woken.recv(4096):
            pass
    except BlockingIOError:
        return


def _kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


# -- the child ---------------------------------------------------------------------------------------------------------


def _become(request: Request, streams: list[int]) -> NoReturn:
    """Run the program as `python -m` would, and end with its exit code."""
    code = 1
    try:
        os.setpgid(0, 0)
        _take(streams)
        os.chdir(request.directory)
        os.environ.clear()
        os.environ.update(request.environment)
        for number, handler in ((signal.SIGCHLD, signal.SIG_DFL), (signal.SIGINT, signal.default_int_handler)):
            signal.signal(number, handler)
        sys.path[0:0] = [request.directory, *filter(None, request.environment.get("PYTHONPATH", "").split(os.pathsep))]
        failpoints.arm(request.environment.get(failpoints.VARIABLE, ""))
        failpoints.observe(evidence.record)
        if "PYTHONWARNINGS" in request.environment:
            warnings._processoptions(request.environment["PYTHONWARNINGS"].split(","))  # type: ignore[attr-defined]
        sys.argv = [request.module, *request.arguments]
        code = _exit_code(request.module)
        threading._shutdown()  # type: ignore[attr-defined]  # what the interpreter does at its end
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError):  # the other end of a pipe is closed
                stream.flush()
        os._exit(code)


def _exit_code(module: str) -> int:
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        if ended.code is None or isinstance(ended.code, int):
            return ended.code or 0
        sys.stderr.write(f"{ended.code}\n")
        return 1
    except BrokenPipeError:
        return 120
    return 0


def _take(streams: list[int]) -> None:
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)), encoding="utf-8")
    out, err = (io.BufferedWriter(io.FileIO(number, "w", closefd=False)) for number in (1, 2))
    sys.stdout = io.TextIOWrapper(out, encoding="utf-8", line_buffering=os.isatty(1))
    sys.stderr = io.TextIOWrapper(err, encoding="utf-8", errors="backslashreplace", line_buffering=True)
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr  # type: ignore[misc]


def preload() -> None:
    """Import every module of the platform."""
    for package in PACKAGES:
        found = importlib.import_module(package)
        for module in pkgutil.walk_packages(found.__path__, f"{package}."):
            if not any(part in module.name for part in LEFT_OUT):
                importlib.import_module(module.name)
    importlib.import_module("uvloop")


def main() -> None:
    with socket.socket(fileno=int(sys.argv[1])) as requests:
        preload()
        gc.freeze()  # what is here now is never looked at again, and stays shared with the children
        serve(requests)


if __name__ == "__main__":
    main()
