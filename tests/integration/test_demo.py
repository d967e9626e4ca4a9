"""`surefoot demo`, as a newcomer would run it."""

import os
import re
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow


def surefoot(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "surefoot", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, **environment},
    )


def test_the_demo_ends_by_itself_and_proves_that_nothing_was_lost() -> None:
    done = surefoot("demo", "--orders", "60", COLUMNS="140")
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"events committed +│ +305 ", done.stdout)
    assert re.search(r"distinct events in the log +│ +305 ", done.stdout)
    assert re.search(r"orders the warehouse set aside +│ +60 ", done.stdout)
    assert re.search(r"orders set aside twice +│ +0 ", done.stdout)
    for nothing in ("lost", "published though rolled back", "keys out of commit order", "keys in two partitions"):
        assert re.search(rf"│ {nothing} +│ +0 ", done.stdout), nothing
    assert "relay-1 killed" in done.stdout
    assert "consumer-2 killed" in done.stdout


def test_the_demo_shows_an_event_that_fails_while_others_pass() -> None:
    shown = surefoot("demo", "--orders", "60", COLUMNS="200").stdout
    assert "order-jammed failed (attempt 1 of 3); its key waits" in shown
    assert re.search(r"order-jammed is dead \(out_of_attempts\).* 1 event waits behind it; [1-9]\d* other", shown)
    assert re.search(r"dead letters +│ +1 ", shown)
