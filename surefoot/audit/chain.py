"""The chain of the audit log, without a database: how a row is sealed, and what a broken chain says of what was done.

A seal is SHA-256 over every column of the row, its number and the seal before it among them: whoever changes, removes,
moves or puts in a row leaves a row whose seal does not fit, a gap, or a row that follows one which is no longer there.
Whoever may write to the table and seals everything anew from there on leaves no trace in it: only a head that was
written down elsewhere tells then. That is what the exported head is for.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

FIRST_PREVIOUS = bytes(32)
"""What the first row follows."""
MOST_FINDINGS = 1000
MOST_SUSPECTS = 64
"""Rows whose seal does not fit that are kept, to see whether two of them changed places."""
MOST_RENUMBERED = 16
"""Rows that may have been taken out, with the later ones renumbered, for us to see that it was this."""
_DOMAIN = b"surefoot audit v1\n"

Kind = Literal["changed", "removed", "inserted", "swapped", "other_head"]


@dataclass(frozen=True, slots=True)
class AuditRow:
    """A row as it is stored: the time with its microseconds in UTC, the details as the text they were written as."""

    number: int
    at: str
    person: str
    action: str
    outcome: str
    about: str
    reason: str
    details: str
    previous: bytes
    seal: bytes = b""

    def shown(self) -> dict[str, object]:
        """As it is exported: with its seals in hexadecimal, and everything that is needed to check them."""
        return {**_sealed_part(self), "seal": self.seal.hex()}


def seal_of(row: AuditRow) -> bytes:
    """What the row must be sealed with. One row has one encoding, and no two rows share one."""
    encoded = json.dumps(_sealed_part(row), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(_DOMAIN + encoded.encode("utf-8", errors="surrogatepass")).digest()


def _sealed_part(row: AuditRow) -> dict[str, object]:
    return {
        "number": row.number,
        "at": row.at,
        "person": row.person,
        "action": row.action,
        "outcome": row.outcome,
        "about": row.about,
        "reason": row.reason,
        "details": row.details,
        "previous": row.previous.hex(),
    }


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that was done to the log: to rows `first` to `last` of it, or to these two where they were swapped."""

    kind: Kind
    first: int
    last: int

    @property
    def sentence(self) -> str:
        if self.first == self.last:
            rows, were, them = f"Row {self.first}", "was", "it"
        else:
            rows, were, them = f"Rows {self.first} to {self.last}", "were", "them"
        match self.kind:
            case "changed":
                return f"{rows} {were} changed: what is there is not what was sealed."
            case "removed":
                return f"{rows} {were} removed."
            case "inserted":
                return f"{rows} {were} inserted: the rows around {them} were sealed without {them}."
            case "swapped":
                return f"Rows {self.first} and {self.last} were swapped: each carries the other's seal."
            case "other_head":
                return (
                    f"Row {self.first} is not the one whose seal was written down: it or a row before it was changed, "
                    "removed or inserted, and the rows after that were sealed anew."
                )


@dataclass(slots=True)
class Chain:
    """Follows the log row by row, in order, and remembers what does not fit. Its memory does not grow with the log.

    A row is judged when the next one is there, or the end: whether later rows were only renumbered shows in two rows,
    not in one."""

    head: tuple[int, bytes] | None = None
    findings: list[Finding] = field(default_factory=list)
    count: int = 0
    _expected: int = 1
    _last_seal: bytes | None = FIRST_PREVIOUS
    """The seal of the row before; None if that row is suspect or missing, and cannot be linked to."""
    _genuine_seal: bytes = FIRST_PREVIOUS
    """The seal of the latest row that fits."""
    _shift: int = 0
    """By how much the rows here were renumbered."""
    _run: int = 0
    """Suspect rows since the latest that fits."""
    _suspects: list[AuditRow] = field(default_factory=list)
    _waiting: AuditRow | None = None

    def follow(self, row: AuditRow) -> None:
        waiting, self._waiting = self._waiting, row
        if waiting is not None:
            self._judge(waiting, row)

    def end(self) -> list[Finding]:
        """What was found, in the order of the rows. A log that ends before the head which was written down was cut."""
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            self._judge(waiting, None)
        if self.head is not None and self._expected <= self.head[0]:
            self._find("removed", self._expected, self.head[0])
        for suspect in self._suspects:
            self._find("changed", suspect.number, suspect.number)
        self._suspects.clear()
        return list(_joined(sorted(self.findings, key=lambda finding: (finding.first, finding.last))))

    def _judge(self, row: AuditRow, following: AuditRow | None) -> None:
        self.count += 1
        if row.number < 1:
            self._find("inserted", row.number, row.number)
            return
        if row.number > self._expected:
            self._find("removed", self._expected, row.number - 1)
            self._last_seal = None
        self._expected = row.number + 1
        if self._fits(row, self._shift):
            self._link(row)
        elif not self._settle(row, following):
            self._suspect(row)
        if self.head is not None and row.number == self.head[0] and row.seal != self.head[1]:
            self._find("other_head", row.number, row.number)

    def _link(self, row: AuditRow) -> None:
        if self._last_seal is not None and row.previous != self._last_seal:
            # The row itself is as it was sealed. So it is the one before it that is not what this one was sealed upon.
            blamed = max(1, row.number - 1)
            self._find("changed", blamed, blamed)
        self._genuine(row)

    def _genuine(self, row: AuditRow) -> None:
        self._last_seal = self._genuine_seal = row.seal
        self._run = 0

    def _settle(self, row: AuditRow, following: AuditRow | None) -> bool:
        """Whether the row is where it does not belong, and is otherwise whole."""
        for suspect in self._suspects:
            if _sealed_as(row, suspect.number) and _sealed_as(suspect, row.number):
                self._suspects.remove(suspect)
                self._find("swapped", suspect.number, row.number)
                self._last_seal = None
                self._run += 1
                return True
        for shift in (0, self._shift + self._run, *(self._shift - taken for taken in range(1, MOST_RENUMBERED + 1))):
            if shift == self._shift or not self._fits(row, shift):
                continue
            if following is not None and following.number == row.number + 1 and not self._fits(following, shift):
                continue
            self._renumbered(row, shift)
            self._genuine(row)
            return True
        return False

    def _renumbered(self, row: AuditRow, shift: int) -> None:
        by, self._shift = shift - self._shift, shift
        if by > 0:
            first = row.number - by
            self._suspects = [suspect for suspect in self._suspects if suspect.number < first]
            self._find("inserted", first, row.number - 1)
        elif row.previous != self._genuine_seal:
            self._find("removed", row.number, row.number - by - 1)

    def _suspect(self, row: AuditRow) -> None:
        self._run += 1
        # Its seal may be the one it always had: what follows it was sealed upon that.
        self._last_seal = None
        if len(self._suspects) < MOST_SUSPECTS:
            self._suspects.append(row)
        else:
            self._find("changed", row.number, row.number)

    def _fits(self, row: AuditRow, shift: int) -> bool:
        return _sealed_as(row, row.number - shift)

    def _find(self, kind: Kind, first: int, last: int) -> None:
        if self.findings and kind != "swapped":
            before = self.findings[-1]
            if before.kind == kind and before.last + 1 == first:
                self.findings[-1] = replace(before, last=last)
                return
        if len(self.findings) < MOST_FINDINGS:
            self.findings.append(Finding(kind, first, last))


def _sealed_as(row: AuditRow, number: int) -> bool:
    return seal_of(row if row.number == number else replace(row, number=number)) == row.seal


def _joined(findings: list[Finding]) -> Iterator[Finding]:
    """Findings of one kind that touch, as one."""
    held: Finding | None = None
    for finding in findings:
        if held is not None and held.kind == finding.kind != "swapped" and finding.first <= held.last + 1:
            held = replace(held, last=max(held.last, finding.last))
            continue
        if held is not None:
            yield held
        held = finding
    if held is not None:
        yield held
