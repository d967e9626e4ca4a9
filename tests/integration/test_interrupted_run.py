"""A test run that is interrupted, terminated or killed leaves no process behind: no server, no child, no guard.

The run is a real `make test`, of a few tests that start brokers, servers and children. The moment is random; a failure
names its seed.
"""

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest

from surefoot.process_guard import guarded_popen
from tests.support.evidence import DIRECTORY
from tests.support.processes import ROOT
from tests.support.waiting import wait_until

FAMILY = "SUREFOOT_TEST_FAMILY"
"""Children inherit it: a process with its value in the environment belongs to the run."""
ARGUMENTS = "tests/crash/test_relay_crashes.py tests/crash/test_consumer_crashes.py -q -p no:cacheprovider"
GONE_WITHIN_S = 10
LATEST_S = 20.0
"""By then the run has its broker, its databases and children at work."""
SEED = int(os.environ.get("SUREFOOT_SEED", "12"))


@dataclass
class Run:
    """`make test` in a session of its own, as a terminal would run it."""

    family: str
    process: "subprocess.Popen[bytes]"

    def processes(self) -> dict[int, str]:
        """All that runs of it: ids and command lines."""
        mark = f"{FAMILY}={self.family}".encode()
        found = {}
        for place in Path("/proc").glob("[0-9]*"):
            try:
                if mark in (place / "environ").read_bytes().split(b"\0"):
                    found[int(place.name)] = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:  # it has ended meanwhile
                continue
        return {pid: command for pid, command in found.items() if command}  # one that has ended has none

    def one(self, words: str, *, child_of: int) -> int:
        """The first process whose command has these words, once there is one."""
        found: list[int] = []

        def there_is_one() -> bool:
            found[:] = [pid for pid, said in self.processes().items() if words in said and parent(pid) == child_of]
            return bool(found)

        wait_until(there_is_one, what=f"a process {words!r} of the run")
        return found[0]

    @property
    def controller(self) -> int:
        return self.one("-m pytest", child_of=self.process.pid)

    @property
    def worker(self) -> int:
        return self.one("exec(eval(sys.stdin.readline()))", child_of=self.controller)


def parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


@pytest.fixture
def run() -> Iterator[Run]:
    family = uuid4().hex
    known = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", DIRECTORY))}
    process = guarded_popen(
        ["make", "test", "WORKERS=2", f"ARGS={ARGUMENTS}"],
        cwd=ROOT,
        env={**known, FAMILY: family},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    started = Run(family, process)
    yield started
    for pid in started.processes():
        os.kill(pid, signal.SIGKILL)
    process.wait()


def interrupt(run: Run) -> None:
    """Ctrl-C reaches everything that runs in the terminal's foreground."""
    os.killpg(run.process.pid, signal.SIGINT)


def terminate_make(run: Run) -> None:
    run.process.terminate()


def kill_make(run: Run) -> None:
    run.process.kill()


def terminate_controller(run: Run) -> None:
    os.kill(run.controller, signal.SIGTERM)


def kill_controller(run: Run) -> None:
    os.kill(run.controller, signal.SIGKILL)


def kill_worker(run: Run) -> None:
    os.kill(run.worker, signal.SIGKILL)


WAYS = [interrupt, terminate_make, kill_make, terminate_controller, kill_controller, kill_worker]


def moments(way: Callable[[Run], None]) -> list[float]:
    return [random.Random(f"{SEED} {way.__name__} {number}").uniform(1, LATEST_S) for number in range(5)]


def end_and_look(run: Run, way: Callable[[Run], None], moment_s: float) -> None:
    _ = run.worker  # the run has begun
    time.sleep(moment_s)  # the moment is what is varied
    end(run, way)


def end(run: Run, way: Callable[[Run], None]) -> None:
    assert run.process.poll() is None, "the run had ended before it was to be"
    way(run)
    if way is kill_make:
        run.process.wait()
    wait_until(lambda: run.process.poll() is not None and not run.processes(), what="nothing of the run is alive",
               within_s=GONE_WITHIN_S)  # fmt: skip
    assert run.process.returncode != 0


SERVERS_AND_CHILDREN = ("postgres", "kafka.Kafka", "tests.support.fork_server")


@pytest.mark.alone
def test_a_run_that_is_killed_with_its_servers_and_children_at_work_leaves_none_of_them(run: Run) -> None:
    def all_at_work() -> bool:
        said = run.processes().values()
        return all(any(words in command for command in said) for words in SERVERS_AND_CHILDREN)

    wait_until(all_at_work, what="the run has its broker, a database and a fork server")
    end(run, kill_controller)


@pytest.mark.alone  # ten seconds are too few beside other tests that keep both cores busy
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_a_run_that_is_ended_at_a_random_moment_leaves_no_process(run: Run, way: Callable[[Run], None]) -> None:
    end_and_look(run, way, moments(way)[0])


@pytest.mark.drill
@pytest.mark.parametrize("number", range(5))
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_a_run_leaves_no_process_at_any_of_five_moments(run: Run, way: Callable[[Run], None], number: int) -> None:
    end_and_look(run, way, moments(way)[number])
