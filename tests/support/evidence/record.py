"""What the processes of a run note: a signal at a failpoint, or a protection that was taken out.

Each process of a run appends to one file. Outside of a run nothing is written.
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


@dataclass(frozen=True, slots=True, order=True)
class Shown:
    """One thing that happened in a test."""

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


def removed(protection: str) -> None:
    """Note that this test takes a protection out within its own process.

    `protection` is a literal, `part.name`: the table in docs/testing.md must have a row for it.
    """
    record("removed", protection)


def recorded(directory: Path) -> list[Shown]:
    """What the processes of a run have noted so far."""
    file = directory / _FILE
    return [Shown(**json.loads(line)) for line in file.read_text().splitlines()] if file.exists() else []
