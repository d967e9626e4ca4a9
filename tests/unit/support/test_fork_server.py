"""The fork server hands its children nothing that does not survive a fork, and nothing of each other."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import processes
from tests.support.processes import ROOT

pytestmark = pytest.mark.slow
CHECK = "from tests.support.fork_server import check_forkable; {before}; check_forkable()"


def check_in_a_process(before: str) -> str:
    command = [sys.executable, "-c", CHECK.format(before=before)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stderr


def test_a_server_with_one_thread_and_no_event_loop_may_fork_after_all_its_imports() -> None:
    assert check_in_a_process("from tests.support.fork_server import preload; preload()") == ""


def test_a_second_thread_is_noticed() -> None:
    said = check_in_a_process("import threading; threading.Thread(target=threading.Event().wait, daemon=True).start()")
    assert "The fork server has 2 threads" in said


def test_an_event_loop_is_noticed() -> None:
    said = check_in_a_process("import asyncio; asyncio.set_event_loop(asyncio.new_event_loop())")
    assert "The fork server has an event loop." in said


def run_module(directory: Path, text: str, **environment: str) -> processes.Done:
    (directory / "program.py").write_text(text)
    return processes.run(["program"], directory=directory, environment={**os.environ, **environment})


def test_two_children_make_different_ids_and_random_numbers(tmp_path: Path) -> None:
    text = """
import random, secrets, uuid
from surefoot.events import new_event
from tests.support.event_types import ThingHappened
for made in (random.random(), secrets.token_hex(), uuid.uuid4(), new_event(ThingHappened(thing_id="a")).id):
    print(made)
"""
    first, second = (run_module(tmp_path, text).out.split() for _ in range(2))
    assert len(first) == 4
    assert not set(first) & set(second)


@pytest.mark.parametrize(
    ("text", "code", "err"),
    [
        ("", 0, ""),
        ("import sys; sys.exit(3)", 3, ""),
        ("raise SystemExit('a sentence')", 1, "a sentence\n"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL, ""),
        ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", -signal.SIGTERM, ""),
    ],
)
def test_a_child_ends_as_a_program_does(tmp_path: Path, text: str, code: int, err: str) -> None:
    assert run_module(tmp_path, text) == (code, "", err)


def test_a_childs_environment_directory_warnings_and_failpoints_are_its_own(tmp_path: Path) -> None:
    text = """
import os, warnings
from surefoot import failpoints
print(os.getcwd(), os.environ["MINE"], failpoints.armed("relay.claimed"))
warnings.warn("an error here")
"""
    done = run_module(tmp_path, text, MINE="mine", SUREFOOT_FAILPOINTS="relay.claimed=kill", PYTHONWARNINGS="error")
    assert done.out == f"{tmp_path} mine True\n"
    assert done.code == 1
    assert "UserWarning: an error here" in done.err
