"""The parent's side of the guard: start it when it is first needed, register what must end with this process.

A child registers itself, before it becomes the program that was asked for, and holds the write end of the pipe until it
has done so: there is no moment in which the parent's death could leave it behind. The parent registers it once more: a
child that is frozen at once has not come so far.
"""

import asyncio
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from surefoot.process_guard import watcher

# The guard's pipe is the child's standard input until the child has written its group into it.
_REGISTER_THEN_RUN = 'echo "-$$" >&0; exec "$0" "$@" </dev/null'

_pipe: int | None = None
"""The write end; None while this process has no guard."""


def guarded_popen(command: Sequence[str], **options: Any) -> "subprocess.Popen[Any]":
    """`subprocess.Popen` for a child that ends with this process. It has a session of its own and no standard input."""
    child = subprocess.Popen(_launcher(command), stdin=_write_end(), start_new_session=True, **options)  # noqa: S603
    _register(f"-{child.pid}")
    return child


async def create_guarded_process(*command: str, **options: Any) -> asyncio.subprocess.Process:
    """`asyncio.create_subprocess_exec` for a child that ends with this process, as `guarded_popen` does it."""
    child = await asyncio.create_subprocess_exec(
        *_launcher(command), stdin=_write_end(), start_new_session=True, **options
    )
    _register(f"-{child.pid}")
    return child


def end_with_me(pid: int) -> None:
    """End the process `pid`, which runs already, when this process ends."""
    _register(f"{pid}")


def remove_with_me(directory: Path) -> None:
    """Delete a temporary directory when this process ends and its children have ended."""
    _register(f"{watcher.REMOVE} {directory.resolve()}")


def watch_my_parent() -> None:
    """End this process too, and all that it has registered, when its present parent ends."""
    _register(f"{watcher.PARENT} {os.getppid()} {os.getpid()}")


def _launcher(command: Sequence[str]) -> list[str]:
    return ["/bin/sh", "-c", _REGISTER_THEN_RUN, *command]


def _register(line: str) -> None:
    os.write(_write_end(), f"{line}\n".encode())


def _write_end() -> int:
    global _pipe
    if _pipe is None:
        reading, _pipe = os.pipe()
        try:
            _start_watcher(reading)
        finally:
            os.close(reading)
    return _pipe


def _start_watcher(reading: int) -> None:
    # Isolated and without site-packages: it starts in milliseconds and imports nothing of the user's.
    command = [sys.executable, "-I", "-S", watcher.__file__, str(os.getpid())]
    streams = [
        (os.POSIX_SPAWN_DUP2, reading, 0),
        (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
        (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
    ]
    os.posix_spawn(sys.executable, command, os.environ, file_actions=streams, setsid=True)


def _forget_in_child() -> None:
    """A forked child has a guard of its own: if it kept the pipe open, the parent's end would go unnoticed."""
    global _pipe
    if _pipe is not None:
        os.close(_pipe)
        _pipe = None


os.register_at_fork(after_in_child=_forget_in_child)
