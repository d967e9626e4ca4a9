"""The suite itself: how many cases there are, and what its command says."""

import sys
from subprocess import run

from tests.blackbox.idempotency.cases import CASES


def test_there_are_at_least_forty_cases() -> None:
    assert len(CASES) >= 40


def test_the_command_says_so_if_there_is_no_server() -> None:
    command = [sys.executable, "-m", "tests.blackbox.idempotency", "http://127.0.0.1:9"]
    done = run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "There is no server at http://127.0.0.1:9" in done.stderr
    assert "Traceback" not in done.stderr
