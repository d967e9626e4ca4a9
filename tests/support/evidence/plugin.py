"""Keeps what a run of a target has shown in `build/evidence`, and fails a complete run that has shown too little.

Only tests that have passed count, from their setup to their teardown.
"""

import json
import os
from collections import defaultdict
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

import pytest

from tests.support.evidence.promises import PROMISES
from tests.support.evidence.record import DIRECTORY, Shown, recorded
from tests.support.evidence.table import KEPT, TARGETS, Proof, missing
from tests.support.targets import is_whole

_PROPERTY = "surefoot_evidence"


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    promises = sorted({name for mark in item.iter_markers("promise") for name in mark.args})
    if unknown := set(promises) - PROMISES.keys():
        pytest.fail(f"There is no promise {min(unknown)}: tests/support/evidence/promises.py has them.", pytrace=False)
    log = "Postgres" if item.get_closest_marker("kafka") is None else "Kafka"
    is_mutation = item.get_closest_marker("mutation") is not None
    item.user_properties.append((_PROPERTY, {"promises": promises, "log": log, "is_mutation": is_mutation}))


class EvidenceOfTheRun:
    """A plugin of the controller."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._passed: dict[str, dict[str, Any]] = {}
        self._missing: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._passed.pop(report.nodeid, None)  # also for a failure in its teardown
        elif report.when == "call" and report.passed:
            self._passed[report.nodeid] = cast(dict[str, Any], dict(report.user_properties)[_PROPERTY])

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        is_over = exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
        if not is_over or not is_whole(session.config):
            return
        proofs = _proofs(self._passed, recorded(Path(os.environ[DIRECTORY])))
        KEPT.mkdir(parents=True, exist_ok=True)
        (KEPT / f"{self._target}.json").write_text(json.dumps([asdict(one) for one in proofs], indent=1) + "\n")
        if exitstatus == pytest.ExitCode.OK:
            self._missing = missing(self._target, proofs)
        if self._missing:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._missing:
            terminalreporter.section("what the run should have shown", sep="-")
            for sentence in self._missing:
                terminalreporter.write_line(sentence, red=True)
            terminalreporter.write_line("See docs/testing.md, «What the runs have shown».")


def _proofs(passed: dict[str, dict[str, Any]], shown: list[Shown]) -> list[Proof]:
    happened: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for one in shown:
        happened[one.test][one.kind].add(one.name)
    return [
        Proof(
            test,
            known["log"],
            known["promises"],
            killed=sorted(happened[test]["kill"]),
            frozen=sorted(happened[test]["stop"]),
            removed=sorted(happened[test]["removed"]),
            is_mutation=known["is_mutation"],
        )
        for test, known in sorted(passed.items())
        if known["promises"] or test in happened
    ]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "promise(number, …): shows these promises; tests/support/evidence/promises.py")
    target = config.getoption("--target", None)
    if target in TARGETS and not hasattr(config, "workerinput"):
        config.pluginmanager.register(EvidenceOfTheRun(target), "evidence_of_the_run")
