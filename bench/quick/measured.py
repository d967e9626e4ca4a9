"""Runs a module of one source tree, and tells the bench how much processor time the process has used.

    python -P measured.py TREE METADATA SOCKET MODULE [ARGUMENT …]

Standard library only: this file decides which tree everything else is imported from.
"""

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


def answer(line: socket.socket) -> None:
    """Say the processor time whenever the bench asks. When the bench is gone, end as Ctrl-C would."""
    while line.recv(1):
        line.sendall(b"%d" % time.process_time_ns())
    os.kill(os.getpid(), signal.SIGTERM)


def main() -> None:
    tree, metadata, number, module, *arguments = sys.argv[1:]
    import_from(tree, metadata)
    line = socket.socket(fileno=int(number))
    threading.Thread(target=answer, args=(line,), daemon=True).start()
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
