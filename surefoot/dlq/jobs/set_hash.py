"""What two people agree on: the hash of a set of dead letters, as the first of them saw it. Pure.

Another death of one of them is another letter, and changes the hash: what is approved is exactly what was looked at.
"""

import hashlib
from collections.abc import Iterable
from typing import NamedTuple

import orjson


class Line(NamedTuple):
    """What of a dead letter counts."""

    dlq_id: str
    consumer: str
    source: str
    event_id: str
    deaths: int
    letter_id: str


def set_hash(lines: Iterable[Line]) -> str:
    """SHA-256 in hexadecimal, the same in whatever order they come. Each is a JSON list, so that no text can pass for
    the end of one and the beginning of the next."""
    together = hashlib.sha256()
    for line in sorted(lines):
        together.update(orjson.dumps(list(line)) + b"\n")
    return together.hexdigest()
