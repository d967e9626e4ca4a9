"""A `surefoot` command that gets a signal in the moment in which it has written a line, and not a statement later:

python -m tests.support.interrupted_command SIGINT "relay starts" relay --database …
"""

import os
import signal
import sys
from typing import TextIO


class Watched:
    """Standard error, that sends this process the signal as soon as the line is out."""

    def __init__(self, stream: TextIO, line: str, number: signal.Signals) -> None:
        self._stream = stream
        self._line = line
        self._number = number

    def write(self, text: str) -> int:
        written = self._stream.write(text)
        self._stream.flush()
        if self._line in text:
            os.kill(os.getpid(), self._number)
        return written

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)


if __name__ == "__main__":
    from surefoot.cli.main import main

    _, number, line, *arguments = sys.argv
    sys.stderr = Watched(sys.stderr, line, signal.Signals[number])
    sys.argv = ["surefoot", *arguments]
    main()
