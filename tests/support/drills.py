"""`make drills` leaves a record: which drill was run on which commit, for how long, and how it ended."""

import json
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.support.targets import is_whole

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "bench" / "results" / "drills.json"


class DrillRecord:
    """A plugin: notes each drill, and writes the record when all have ended."""

    def __init__(self) -> None:
        self._drills: dict[str, dict[str, object]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.failed:
            self._drills[report.nodeid] = {"outcome": report.outcome, "seconds": round(report.duration, 1)}

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        if exitstatus not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            return  # interrupted
        commit = subprocess.run(
            ["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True, check=False
        )
        found = {
            "commit": commit.stdout.strip(),
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "drills": dict(sorted(self._drills.items())),
        }
        RESULTS.write_text(json.dumps(found, indent=2) + "\n")


def pytest_configure(config: pytest.Config) -> None:
    is_worker = hasattr(config, "workerinput")
    if config.getoption("--target") == "drills" and not is_worker and is_whole(config):
        config.pluginmanager.register(DrillRecord(), "drill_record")
