"""The two commands a newcomer starts with, as a newcomer would."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import psycopg
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


def test_up_runs_until_interrupted_and_keeps_its_data(tmp_path: Path) -> None:
    for parent in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        parent.chmod(0o755)  # the server does not run as root, and has to get in
    for _ in range(2):
        process = subprocess.Popen(
            [sys.executable, "-m", "surefoot", "up", "--directory", str(tmp_path / "data")],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "COLUMNS": "200"},
        )
        assert process.stdout is not None
        lines: list[str] = []
        while not any("surefoot outbox list" in line for line in lines):
            line = process.stdout.readline()
            assert line, "it ended too early:\n" + "".join(lines)
            lines.append(line)
        url = next(line.split()[1] for line in lines if line.strip().startswith("database"))
        with psycopg.connect(url) as connection:
            connection.execute("CREATE TABLE IF NOT EXISTS kept (n int)")
            connection.execute("INSERT INTO kept VALUES (1)")
            kept = connection.execute("SELECT count(*) FROM kept").fetchone()
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=30)
        assert process.returncode == 0, rest
        assert "Traceback" not in rest
        assert "The data is kept" in rest
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(url)
    assert kept == (2,)
