"""What a run has shown: where a process was killed or frozen, and which protection was taken out, by which test.

Each process of a run appends to one file. Nothing is written outside of a run.
"""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

DIRECTORY = "SUREFOOT_TEST_RUN_DIRECTORY"
"""Where the processes of a run leave words for each other."""
_FILE = "evidence.jsonl"
Kind = Literal["kill", "stop", "error", "removed"]


@dataclass(frozen=True, slots=True)
class Shown:
    """One thing that happened: a signal at a failpoint, or a protection that was removed."""

    kind: Kind
    name: str
    test: str


def record(kind: Kind, name: str) -> None:
    """Note that this happened, on behalf of the test that started this process."""
    directory = os.environ.get(DIRECTORY)
    if not directory:
        return
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
    line = json.dumps(asdict(Shown(kind, name, test))).encode() + b"\n"
    descriptor = os.open(Path(directory) / _FILE, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, line)  # one write: lines of several processes do not mix
    finally:
        os.close(descriptor)


def recorded(directory: Path) -> list[Shown]:
    """What the processes of a run have noted so far."""
    file = directory / _FILE
    return [Shown(**json.loads(line)) for line in file.read_text().splitlines()] if file.exists() else []
