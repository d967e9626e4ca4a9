"""Closes the books of a test run: what was collected was run, or was left out on purpose.

With several processes pytest-xdist runs one test for each node id: two tests of one id are one test that never runs. So
ids must be unique, and at the end the numbers must add up; otherwise the run fails. The summary also says how many
processes the tests started, and how long that took.
"""

from collections import Counter
from dataclasses import dataclass, field

import pytest

from tests.support import processes

SUMMARY_KEY = "surefoot_accounting"


@dataclass
class Books:
    """What one run has collected, left out and run."""

    collected: set[str] = field(default_factory=set)
    deselected: int = 0
    run: set[str] = field(default_factory=set)
    skipped: set[str] = field(default_factory=set)
    processes_started: int = 0
    processes_seconds: float = 0.0

    def problems(self) -> list[str]:
        """One sentence for each difference between what was collected and what was run."""
        found = []
        if missing := self.collected - self.run - self.skipped:
            found.append(f"{len(missing)} collected tests were not run, among them {min(missing)}.")
        if unknown := (self.run | self.skipped) - self.collected:
            found.append(f"{len(unknown)} tests were run that were not collected, among them {min(unknown)}.")
        return found

    def line(self) -> str:
        total = len(self.collected) + self.deselected
        return (
            f"collected {total} = left out {self.deselected} + run {len(self.run)} + skipped {len(self.skipped)}; "
            f"{self.processes_started} processes forked in {self.processes_seconds:.1f} s"
        )


class Accountant:
    """A plugin: keeps the books of this process; the controller adds those of its workers."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.books = Books()
        self.is_complete = False
        """Not interrupted, not ended at the first failure, and not a mere list of tests."""

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        repeated = [name for name, times in Counter(item.nodeid for item in session.items).items() if times > 1]
        if repeated:
            raise pytest.UsageError(
                f"{len(repeated)} node ids stand for several tests, of which only one would run: {repeated[0]}. "
                "Give each test an id of its own."
            )
        self.books.collected |= {item.nodeid for item in session.items}

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        self.books.deselected += len(items)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped:
            self.books.skipped.add(report.nodeid)
        elif report.when == "call" or report.failed:
            self.books.run.add(report.nodeid)

    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        self.books.collected |= set(ids)

    def pytest_testnodedown(self, node: object, error: object) -> None:
        told = getattr(node, "workeroutput", {}).get(SUMMARY_KEY)
        if told is not None:
            self.books.deselected = told["deselected"]  # every worker collects everything
            self.books.processes_started += told["processes_started"]
            self.books.processes_seconds += told["processes_seconds"]

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        self.books.processes_started += processes.statistics.started
        self.books.processes_seconds += processes.statistics.seconds
        output = getattr(self.config, "workeroutput", None)
        if output is not None:
            output[SUMMARY_KEY] = {
                "deselected": self.books.deselected,
                "processes_started": self.books.processes_started,
                "processes_seconds": self.books.processes_seconds,
            }
            return
        self.is_complete = not (session.shouldstop or session.shouldfail or self.config.option.collectonly)
        if self.is_complete and self.books.problems():
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self.is_complete:
            return
        terminalreporter.section("what was collected was run", sep="-")
        terminalreporter.write_line(self.books.line())
        for problem in self.books.problems():
            terminalreporter.write_line(problem, red=True)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Accountant(config), "accountant")
