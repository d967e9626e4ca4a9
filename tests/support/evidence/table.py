"""The table of promises, failpoints and protections in docs/testing.md, made from what complete runs have recorded.

    make test test-deep evidence

writes it anew. The end of a complete run compares the table with what the run has shown.
"""

import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from tests.support.evidence.places import ROOT, failpoints, protections
from tests.support.evidence.promises import PROMISES, PROTECTIONS, WITHOUT_A_LOG

PAGE = ROOT / "docs" / "testing.md"
KEPT = ROOT / "build" / "evidence"
BEGIN, END = "<!-- what runs have shown: begin -->", "<!-- end -->"
TARGETS = ("test", "deep")
NONE = "none"


@dataclass(frozen=True, slots=True)
class Proof:
    """A test that has passed, and what happened in it."""

    test: str
    log: str
    """`Kafka` or `Postgres`."""
    promises: Sequence[str]
    killed: Sequence[str]
    frozen: Sequence[str]
    removed: Sequence[str]
    is_mutation: bool = False

    def __post_init__(self) -> None:
        """What a weakened product does, or a planted mistake, shows no promise and counts as no kill or freeze."""
        if self.removed or self.is_mutation:
            for shown in ("promises", "killed", "frozen"):
                object.__setattr__(self, shown, ())

    @property
    def function(self) -> str:
        """The test without its parameters, as the table names it."""
        return self.test.partition("[")[0].removeprefix("tests/")


Proofs = Mapping[str, Sequence[Proof]]
"""By target."""


def missing(target: str, proofs: Sequence[Proof]) -> list[str]:
    """One sentence for each thing that a complete run of this target should have shown, and has not."""
    found = []
    if target == "test":
        for name in failpoints():
            if not any(name in proof.killed for proof in proofs):
                found.append(f"No test kills a process at the failpoint {name}.")
            if not any(name in proof.frozen for proof in proofs):
                found.append(f"No test freezes a process at the failpoint {name}.")
        for promise in PROMISES:
            wanted = "Postgres" if promise in WITHOUT_A_LOG else "Kafka"
            if not any(promise in proof.promises and proof.log == wanted for proof in proofs):
                found.append(f"No test shows {promise} on {wanted}.")
    rows = read(PAGE.read_text())
    shown = {(kind, name, proof.function) for proof in proofs for kind, name in _shown(proof)}
    stale = [row for row in rows if row.target == target and (row.kind, row.name, row.test) not in shown]
    found += [f"docs/testing.md says that {row.test} shows {row.name} ({row.kind}): it did not." for row in stale]
    return found


def _shown(proof: Proof) -> Iterable[tuple[str, str]]:
    for kind, names in (("killed", proof.killed), ("frozen", proof.frozen), ("removed", proof.removed)):
        for name in names:
            yield kind, name
    for promise in proof.promises:
        yield proof.log, promise


# -- writing -----------------------------------------------------------------------------------------------------------


def render(proofs: Proofs) -> str:
    """The three tables, in Markdown."""
    return "\n\n".join([_promises(proofs), _failpoints(proofs), _protections(proofs)])


def _promises(proofs: Proofs) -> str:
    lines = ["### Promises", "", "| promise | shown on Kafka by | shown on Postgres alone by |", "|---|---|---|"]
    for number, words in PROMISES.items():
        on = {log: _cell(proofs, _shows(number, log)) for log in ("Kafka", "Postgres")}
        lines.append(f"| {number} {words} | {on['Kafka']} | {on['Postgres']} |")
    return "\n".join(lines)


def _shows(promise: str, log: str) -> Callable[[Proof], bool]:
    return lambda proof: promise in proof.promises and proof.log == log


def _failpoints(proofs: Proofs) -> str:
    lines = ["### Failpoints", "", "| failpoint | promises | killed there by | frozen there by |", "|---|---|---|---|"]
    for name in failpoints():
        killed, frozen = (_cell(proofs, _happens(name, kind)) for kind in ("killed", "frozen"))
        lines.append(f"| {name} | {_concerned(proofs, name)} | {killed} | {frozen} |")
    return "\n".join(lines)


def _protections(proofs: Proofs) -> str:
    lines = ["### Protections", "", "| protection | promise | taken out by |", "|---|---|---|"]
    lines += [
        f"| {name} | {PROTECTIONS.get(name, '-')} | {_cell(proofs, _happens(name, 'removed'))} |"
        for name in protections()
    ]
    return "\n".join(lines)


def _happens(name: str, kind: str) -> Callable[[Proof], bool]:
    return lambda proof: name in getattr(proof, kind)


def _concerned(proofs: Proofs, name: str) -> str:
    """The promises that hold although a process is killed or frozen there."""
    found = {
        promise
        for several in proofs.values()
        for proof in several
        if name in (*proof.killed, *proof.frozen)
        for promise in proof.promises
    }
    return " ".join(sorted(found)) or "-"


def _cell(proofs: Proofs, wanted: Callable[[Proof], bool]) -> str:
    """One test for which it holds, and the target that runs it: `make test` before `make test-deep`, and a test that
    kills or freezes a process before one that does not."""
    for target in TARGETS:
        found = [proof for proof in proofs.get(target, ()) if wanted(proof)]
        if found:
            best = min(found, key=lambda proof: (not (proof.killed or proof.frozen), proof.function))
            return f"`{best.function}` ({target})"
    return NONE


# -- reading -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Row:
    """One cell of the table: this test shows this, in this target."""

    kind: str
    name: str
    test: str
    target: str


_KINDS = {
    "Promises": ("Kafka", "Postgres"),
    "Failpoints": ("", "killed", "frozen"),
    "Protections": ("", "removed"),
}
_CELL = re.compile(r"`([^`]+)` \((\w+)\)")


def read(page: str) -> list[Row]:
    """Each cell of the tables that names a test."""
    rows: list[Row] = []
    kinds: Sequence[str] = ()
    for line in page.partition(BEGIN)[2].partition(END)[0].splitlines():
        if line.startswith("### "):
            kinds = _KINDS[line.removeprefix("### ")]
        elif line.startswith("| ") and kinds:
            name, *cells = [cell.strip() for cell in line.strip("|").split("|")]
            for kind, cell in zip(kinds, cells, strict=True):
                if kind and (found := _CELL.fullmatch(cell)):
                    rows.append(Row(kind, name.split()[0], found[1], found[2]))
    return rows


def kept() -> Proofs:
    """What the last complete run of each target has recorded."""
    found = {}
    for target in TARGETS:
        file = KEPT / f"{target}.json"
        if not file.exists():
            raise FileNotFoundError(f"There is no {file.relative_to(ROOT)}. Run `make test test-deep` first.")
        found[target] = [Proof(**one) for one in json.loads(file.read_text())]
    return found


def main() -> None:
    try:
        table = render(kept())
    except FileNotFoundError as absent:
        sys.exit(str(absent))
    before, _, rest = PAGE.read_text().partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n\n{table}\n\n{END}{rest.partition(END)[2]}")


if __name__ == "__main__":
    main()
