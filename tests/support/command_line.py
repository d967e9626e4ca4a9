"""`surefoot …` given within the process of the test, where it needs no second to load its modules.

The command's words and its exit code are the same there. Signals, and commands that run until they are stopped, are
tested with processes.
"""

import contextlib
import io
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple
from unittest import mock

from surefoot.cli import main

# Arguments, environment, directory and output belong to the whole process: one command at a time.
_TURN = threading.Lock()


class Done(NamedTuple):
    code: int
    out: str
    err: str


def surefoot(*arguments: str, environment: Mapping[str, str] | None = None, directory: Path | None = None) -> Done:
    """Run a command to its end.

    environment: what it finds there beside what this process has; settings of Surefoot it finds only here.
    directory: where it works.
    """
    known = {name: value for name, value in os.environ.items() if not name.startswith("SUREFOOT_")}
    given = {**known, "COLUMNS": "200", "NO_COLOR": "1", **(environment or {})}
    with (
        _TURN,
        contextlib.chdir(directory or Path.cwd()),
        mock.patch.dict(os.environ, given, clear=True),
        mock.patch.object(sys, "argv", ["surefoot", *arguments]),
        _printed("stdout") as out,
        _printed("stderr") as err,
    ):
        code = _exit_code()
    return Done(code, out.getvalue().decode(), err.getvalue().decode())


def _exit_code() -> int:
    try:
        main()
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


@contextlib.contextmanager
def _printed(stream: str) -> Iterator[io.BytesIO]:
    kept = io.BytesIO()
    text = io.TextIOWrapper(kept, encoding="utf-8", write_through=True)
    with mock.patch.object(sys, stream, text):
        yield kept
    text.detach()
