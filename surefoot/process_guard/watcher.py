"""The guard itself: reads what to end from standard input, and ends it at end of file.

Run as a script, by its path, in an interpreter without site-packages: it may import the standard library only.

One line for each thing:  `-123` a process group, `123` a single process, `remove PATH` a directory, and
`parent 12 34` to end process 34, and everything else, when process 12 is gone.
"""

import os
import select
import signal
import sys
import time
from dataclasses import dataclass, field

REMOVE = "remove"
PARENT = "parent"
GRACE_VARIABLE = "SUREFOOT_PROCESS_GUARD_GRACE_S"
"""How long a process may take to end after it was asked to. A test run makes it short."""
GRACE_S = 5.0
LOOK_S = 0.5
"""How often it is checked which processes are still there. A number is forgotten before the system can use it again."""


@dataclass
class Registered:
    """What must end: the arguments of `os.kill`, negative for a group."""

    targets: set[int] = field(default_factory=set)
    directories: list[str] = field(default_factory=list)
    parent: int = 0
    child_of_parent: int = 0

    def take(self, line: str) -> None:
        word, _, rest = line.partition(" ")
        if word == REMOVE:
            self.directories.append(rest)
        elif word == PARENT:
            self.parent, self.child_of_parent = (int(part) for part in rest.split())
        elif word:
            self.targets.add(int(word))

    def forget_ended(self) -> None:
        self.targets = {target for target in self.targets if _send(target, 0)}

    @property
    def is_orphaned(self) -> bool:
        return bool(self.parent) and not _send(self.parent, 0)


def main() -> None:
    os.chdir("/")
    grace_s = float(os.environ.get(GRACE_VARIABLE) or GRACE_S)
    registered = Registered()
    wait_for_the_end(registered, parent=int(sys.argv[1]))
    if registered.is_orphaned:
        registered.targets.add(registered.child_of_parent)
    end(registered, grace_s)
    remove(registered.directories)


def wait_for_the_end(registered: Registered, parent: int) -> None:
    """Return when the parent has ended, or when the parent's own parent has, if that is to be watched.

    The end of file says it at once. A child that was frozen before it registered holds the pipe open: then the guard
    notices that it has another parent by now.
    """
    text = b""
    is_last_look = False
    while not registered.is_orphaned:
        readable, _, _ = select.select([0], [], [], LOOK_S)
        if readable:
            read = os.read(0, 65536)
            if not read:
                return
            *lines, text = (text + read).split(b"\n")
            for line in lines:
                registered.take(line.decode())
        elif is_last_look:
            return
        is_last_look = os.getppid() != parent
        registered.forget_ended()


def end(registered: Registered, grace_s: float) -> None:
    """Ask first; SIGQUIT makes Postgres end its own processes at once; SIGKILL ends what is left."""
    _wake_and_send(registered, signal.SIGINT)
    if _all_gone(registered, grace_s / 2):
        return
    _wake_and_send(registered, signal.SIGQUIT)
    if _all_gone(registered, grace_s / 2):
        return
    _wake_and_send(registered, signal.SIGKILL)


def remove(directories: list[str]) -> None:
    if directories:
        import shutil  # only here: most guards have nothing to remove

        for directory in directories:
            shutil.rmtree(directory, ignore_errors=True)


def _wake_and_send(registered: Registered, number: int) -> None:
    for target in registered.targets:
        _send(target, number)
        _send(target, signal.SIGCONT)  # a frozen process takes the signal when it wakes


def _all_gone(registered: Registered, within_s: float) -> bool:
    deadline = time.monotonic() + within_s
    while registered.targets and time.monotonic() < deadline:
        time.sleep(0.02)
        registered.forget_ended()
    return not registered.targets


def _send(target: int, number: int) -> bool:
    """Whether there was anything to send the signal to."""
    try:
        os.kill(target, number)
    except ProcessLookupError:
        return False
    except PermissionError:  # it exists, and belongs to another user
        return True
    return True


if __name__ == "__main__":
    main()
