"""Runs a module of one source tree, and tells the bench how much processor time the process has used.

    python -P measured.py TREE METADATA SOCKET MODULE [ARGUMENT …]

Standard library only: this file decides which tree everything else is imported from.
"""

import cProfile
import os
import runpy
import signal
import socket
import sys
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent


def import_from(tree: str, metadata: str) -> None:
    """Import the platform from `tree`, its entry points from `metadata`, the workload from this folder.

    The installed working tree must not fill in for modules that `tree` does not have."""
    sys.meta_path[:] = [one for one in sys.meta_path if not getattr(one, "__module__", "").startswith("__editable__")]
    working_tree = str(HERE.parent.parent)
    sys.path[:] = [metadata, tree, *(one for one in sys.path if one != working_tree), str(HERE)]


class CallCounter:
    """Counts the calls of functions, Python's and C's, in the main thread. Costs nothing while it is off."""

    def __init__(self) -> None:
        self._profile: cProfile.Profile | None = None
        self._switched = threading.Event()
        self.calls = 0
        signal.signal(signal.SIGUSR1, self._switch)

    def switch(self) -> int:
        """On, or off and how many there were. A profile is set by the thread that it is of, so a signal asks for it."""
        self._switched.clear()
        os.kill(os.getpid(), signal.SIGUSR1)
        self._switched.wait()
        return self.calls

    def _switch(self, *_: object) -> None:
        if self._profile is None:
            self._profile = cProfile.Profile()
            self._profile.enable()
        else:
            self._profile.disable()
            self.calls = sum(entry.callcount for entry in self._profile.getstats())
            self._profile = None
        self._switched.set()


def answer(line: socket.socket, counter: CallCounter) -> None:
    """Answer what the bench asks. When the bench is gone, end as Ctrl-C would."""
    while asked := line.recv(1):
        line.sendall(b"%d" % (time.process_time_ns() if asked == b"?" else counter.switch()))
    os.kill(os.getpid(), signal.SIGTERM)


def main() -> None:
    tree, metadata, number, module, *arguments = sys.argv[1:]
    import_from(tree, metadata)
    line = socket.socket(fileno=int(number))
    threading.Thread(target=answer, args=(line, CallCounter()), daemon=True).start()
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
