"""How the history is sealed, without a database: what a seal is over, and what a broken one says.

A seal is SHA-256 over the seal before it, its own range and every row in it. Whoever changes, removes or adds a row
leaves a seal that does not fit. Whoever may write to both tables and seals everything anew leaves no trace in them:
only a seal that was written down elsewhere tells then.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

FIRST_PREVIOUS = bytes(32)
"""What the first seal follows."""
BEGINNING = "-infinity"
"""Where the first range begins."""
_DOMAIN = b"surefoot idempotency history v1\n"


class Line(NamedTuple):
    """A row of the history. Times are texts in UTC, to the microsecond."""

    number: int
    at: str
    key_hash: str
    tenant: str
    fence: int
    what: str
    details: str


@dataclass(frozen=True, slots=True)
class Seal:
    """Covers the lines from `after` on and before `until`."""

    number: int
    after: str
    until: str
    rows: int
    previous: bytes
    seal: bytes


NOTHING_SEALED = Seal(0, BEGINNING, BEGINNING, 0, FIRST_PREVIOUS, FIRST_PREVIOUS)
"""What the first seal comes after."""


def next_seal(last: Seal, until: str, lines: Sequence[Line]) -> Seal:
    number = last.number + 1
    return Seal(number, last.until, until, len(lines), last.seal, _sealed(last.seal, number, last.until, until, lines))


def fits(seal: Seal, lines: Sequence[Line]) -> bool:
    return seal.rows == len(lines) and seal.seal == _sealed(seal.previous, seal.number, seal.after, seal.until, lines)


def whole_range(lines: Sequence[Line], until: str, most: int) -> tuple[Sequence[Line], str]:
    """The lines of the next seal, and where it ends: not more than `most`, and never a part of what has one time.

    `lines` has one more than that where there are more. None of them: all have one time."""
    if len(lines) <= most:
        return lines, until
    cut = lines[most].at
    return [line for line in lines if line.at < cut], cut


def _sealed(previous: bytes, number: int, after: str, until: str, lines: Sequence[Line]) -> bytes:
    digest = hashlib.sha256(_DOMAIN)
    digest.update(_encoded([number, after, until, len(lines), previous.hex()]))
    for line in lines:
        digest.update(_encoded(list(line)))
    return digest.digest()


def _encoded(values: list[object]) -> bytes:
    """One line of text for each, and no two alike."""
    return json.dumps(values, separators=(",", ":"), ensure_ascii=True).encode() + b"\n"


@dataclass(frozen=True, slots=True)
class Verified:
    """What a look through the history has found."""

    findings: tuple[str, ...]
    seals: int
    rows: int
    """That fit their seals."""
    pruned: int
    """Seals whose rows are past retention and were removed."""
    head: tuple[int, str] | None
    """The last seal, in hexadecimal: what to write down elsewhere. None if there is none."""

    @property
    def is_whole(self) -> bool:
        return not self.findings


@dataclass(slots=True)
class Chain:
    """Follows the seals in order. `head` is one that was written down earlier: its number, and it in hexadecimal."""

    head: tuple[int, str] | None = None
    findings: list[str] = field(default_factory=list)
    seals: int = 0
    rows: int = 0
    pruned: int = 0
    last: Seal = NOTHING_SEALED

    def follow(self, seal: Seal, lines: Sequence[Line], *, is_past: bool) -> None:
        """`is_past`: its lines are older than they have to be kept, and only the oldest can be missing."""
        self._link(seal)
        if fits(seal, lines):
            self.rows += len(lines)
        elif is_past and not lines and self.pruned == self.seals:
            self.pruned += 1
        else:
            self.findings.append(_broken(seal, len(lines)))
        self.seals += 1
        self.last = seal

    def end(self) -> Verified:
        if self.head is not None and self.last.number < self.head[0]:
            self.findings.append(
                f"Seal {self.head[0]} was written down elsewhere, and the last one here is {self.last.number}: the end "
                "of the history was removed."
            )
        last = None if self.seals == 0 else (self.last.number, self.last.seal.hex())
        return Verified(tuple(self.findings), self.seals, self.rows, self.pruned, last)

    def _link(self, seal: Seal) -> None:
        before = self.last
        if seal.number != before.number + 1:
            self.findings.append(f"After seal {before.number} comes seal {seal.number}: what was between was removed.")
        elif seal.previous != before.seal or seal.after != before.until:
            self.findings.append(
                f"Seal {seal.number} does not follow seal {before.number} as it is now: one of the two was changed."
            )
        if self.head is not None and (seal.number, seal.seal.hex()) != self.head and seal.number == self.head[0]:
            self.findings.append(
                f"Seal {seal.number} is not the one that was written down: lines up to it were changed and sealed anew."
            )


def _broken(seal: Seal, found: int) -> str:
    where = f"Seal {seal.number} (lines before {seal.until}) was made over {seal.rows} lines"
    if found < seal.rows:
        return f"{where}, and {found} are there: {seal.rows - found} or more were removed or moved to another time."
    if found > seal.rows:
        return f"{where}, and {found} are there: {found - seal.rows} or more were added since."
    return f"{where}, and they are not what was sealed: a line, or the seal, was changed."
