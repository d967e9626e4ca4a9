"""Each failpoint and each protection has a row in docs/testing.md, and a run that shows less than that fails."""

import ast
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.evidence import places, table
from tests.support.evidence.promises import PROMISES, PROTECTIONS, WITHOUT_A_LOG
from tests.support.evidence.table import PAGE, Proof, Row

TESTS = places.ROOT / "tests"
PAGE_OF_ONE = f"""
{table.BEGIN}

### Promises

| promise | shown on Kafka by | shown on Postgres alone by |
|---|---|---|
| P1 Some words. | `crash/test_a.py::test_one` (test) | none |

### Failpoints

| failpoint | promises | killed there by | frozen there by |
|---|---|---|---|
| relay.claimed | P1 | `crash/test_a.py::test_one` (test) | none |

### Protections

| protection | promise | taken out by |
|---|---|---|
| relay.fence | P3 | `crash/test_a.py::test_without` (deep) |

{table.END}
"""


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return table.read(PAGE.read_text())


@pytest.mark.parametrize("kind", ["killed", "frozen"])
def test_the_page_names_a_test_of_make_test_for_every_failpoint(rows: list[Row], kind: str) -> None:
    assert sorted(row.name for row in rows if row.kind == kind and row.target == "test") == places.failpoints()


def test_the_page_names_a_test_for_every_protection_that_can_be_taken_out(rows: list[Row]) -> None:
    assert sorted(row.name for row in rows if row.kind == "removed") == places.protections()


def test_every_protection_of_the_list_is_taken_out_by_a_test() -> None:
    assert places.protections() == sorted(PROTECTIONS)
    assert set(PROTECTIONS.values()) <= {*PROMISES, "-"}


def test_the_page_names_a_test_of_make_test_for_every_promise(rows: list[Row]) -> None:
    shown = {(row.name, row.kind) for row in rows if row.target == "test"}
    wanted = {(promise, "Postgres" if promise in WITHOUT_A_LOG else "Kafka") for promise in PROMISES}
    assert wanted <= shown


def test_every_test_that_the_page_names_exists(rows: list[Row]) -> None:
    assert rows
    assert [row.test for row in rows if not exists(row.test)] == []


def exists(test: str) -> bool:
    file, _, function = test.partition("::")
    tree = ast.parse((TESTS / file).read_text())
    return any(isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == function for node in tree.body)


def proof(test: str, **shown: list[str]) -> Proof:
    return replace(Proof(test, "Kafka", promises=[], killed=[], frozen=[], removed=[]), **shown)  # type: ignore[arg-type]


def test_the_tables_are_read_as_they_were_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "failpoints", lambda: ["relay.claimed"])
    monkeypatch.setattr(table, "protections", lambda: ["relay.fence"])
    monkeypatch.setattr(table, "PROMISES", {"P1": "Some words."})
    killed = proof("tests/crash/test_a.py::test_one[1]", promises=["P1"], killed=["relay.claimed"])
    without = proof("tests/crash/test_a.py::test_without", promises=["P1", "P3"], removed=["relay.fence"])
    written = f"\n{table.BEGIN}\n\n{table.render({'test': [killed], 'deep': [without]})}\n\n{table.END}\n"
    assert written == PAGE_OF_ONE
    assert table.read(written) == [
        Row("Kafka", "P1", "crash/test_a.py::test_one", "test"),
        Row("killed", "relay.claimed", "crash/test_a.py::test_one", "test"),
        Row("removed", "relay.fence", "crash/test_a.py::test_without", "deep"),
    ]


def test_a_run_that_shows_too_little_is_told_what_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    page = tmp_path / "testing.md"
    page.write_text(PAGE_OF_ONE)
    monkeypatch.setattr(table, "PAGE", page)
    monkeypatch.setattr(table, "failpoints", lambda: ["relay.claimed", "relay.sent"])
    monkeypatch.setattr(table, "PROMISES", {"P1": "Some words.", "P8": "Others."})
    shown = proof("tests/crash/test_a.py::test_one", promises=["P1"], frozen=["relay.claimed"], killed=["relay.sent"])
    assert table.missing("test", [shown]) == [
        "No test kills a process at the failpoint relay.claimed.",
        "No test freezes a process at the failpoint relay.sent.",
        "No test shows P8 on Postgres.",
        "docs/testing.md says that crash/test_a.py::test_one shows relay.claimed (killed): it did not.",
    ]
    weakened = replace(shown, killed=["relay.claimed"], removed=["relay.fence"])
    assert "No test kills a process at the failpoint relay.claimed." in table.missing("test", [shown, weakened])
    assert table.missing("deep", []) == [
        "docs/testing.md says that crash/test_a.py::test_without shows relay.fence (removed): it did not."
    ]


def test_failpoints_and_protections_are_found_in_the_sources(tmp_path: Path) -> None:
    for file, source in {
        "dlq/a.py": 'failpoints.failpoint("dlq.one")\nfailpoint(f"dlq.{part}.taken")\n',
        "tests/b.py": 'def test():\n    removed("dlq.own")\n',
    }.items():
        (tmp_path / file).parent.mkdir()
        (tmp_path / file).write_text(source)
    assert places.failpoints(tmp_path) == ["dlq.intake.taken", "dlq.one", "dlq.outcomes.taken"]
    assert {"dlq.own", "relay.fence"} <= set(places.protections(tmp_path))


def test_a_name_that_cannot_be_read_from_the_sources_is_refused(tmp_path: Path) -> None:
    (tmp_path / "dlq").mkdir()
    for call in ("failpoint(name)", "failpoints.failpoint(name)", "failpoint(name=other)"):
        (tmp_path / "dlq" / "a.py").write_text(call)
        with pytest.raises(AssertionError, match=r"a\.py:1: the name is put together"):
            places.failpoints(tmp_path)
