"""What a process has started ends when that process ends, however it ends."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from surefoot.database.embedded import EmbeddedPostgres
from surefoot.process_guard.watcher import Registered
from tests.support.postgres_servers import open_directory

pytestmark = pytest.mark.slow
GRACE_S = "1"
WITHIN_S = 20
PARENT = """
import os, subprocess, sys, time
from pathlib import Path
from surefoot.process_guard import end_with_me, guarded_popen, remove_with_me, watch_my_parent

pids = Path(sys.argv[1])

def note(*started):
    pids.with_suffix(".part").write_text(" ".join(map(str, started)))
    pids.with_suffix(".part").rename(pids)

{body}
time.sleep(600)
"""


def start(body: str, pids: Path) -> "subprocess.Popen[bytes]":
    """A parent in a process of its own, when it has written down what it started."""
    environment = {**os.environ, "SUREFOOT_PROCESS_GUARD_GRACE_S": GRACE_S}
    process = subprocess.Popen([sys.executable, "-c", PARENT.format(body=body), str(pids)], env=environment)
    wait_for(pids.exists)
    return process


def wait_for(check: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not check():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def are_gone(pids: Path) -> bool:
    return not any(is_alive(int(pid)) for pid in pids.read_text().split())


def is_alive(pid: int) -> bool:
    """Whether it runs: one that has ended, and waits for its parent to notice, does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"


def kill(process: "subprocess.Popen[bytes]", number: int = signal.SIGKILL) -> None:
    process.send_signal(number)
    process.wait()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_children_and_their_own_children_end_with_the_parent(tmp_path: Path, number: int) -> None:
    body = """
one = guarded_popen(["/bin/sh", "-c", "sleep 600 & echo $!; wait"], stdout=subprocess.PIPE)
other = guarded_popen(["sleep", "600"])
note(one.pid, one.stdout.readline().decode().strip(), other.pid)
"""
    parent = start(body, tmp_path / "pids")
    assert not are_gone(tmp_path / "pids")
    kill(parent, number)
    wait_for(lambda: are_gone(tmp_path / "pids"))


def test_a_child_that_is_frozen_or_will_not_listen_ends_too(tmp_path: Path) -> None:
    body = """
script = "trap '' INT QUIT TERM; echo; while :; do sleep 1; done"
deaf = guarded_popen(["/bin/sh", "-c", script], stdout=subprocess.PIPE)
deaf.stdout.readline()
frozen = guarded_popen(["sleep", "600"])
frozen.send_signal(19)
note(deaf.pid, frozen.pid)
"""
    kill(start(body, tmp_path / "pids"))
    wait_for(lambda: are_gone(tmp_path / "pids"))


def test_a_parent_that_is_killed_while_it_starts_children_leaves_none(tmp_path: Path) -> None:
    """Each child marks itself by a file that it holds open: whichever moment is hit, none is left that holds it."""
    marker = tmp_path / "marker"
    body = f"""
note()
while True:
    guarded_popen(["sleep", "600"], stdout=open({str(marker)!r}, "a"))
"""
    for milliseconds in range(0, 50, 5):
        pids = tmp_path / f"pids-{milliseconds}"
        parent = start(body, pids)
        time.sleep(milliseconds / 1000)  # the moment is what is varied
        kill(parent)
        wait_for(lambda: not holders(marker))


def holders(path: Path) -> list[str]:
    found = []
    for descriptor in Path("/proc").glob("[0-9]*/fd/1"):
        try:
            if descriptor.readlink() == path:
                found.append(str(descriptor))
        except OSError:
            continue
    return found


def test_a_process_that_ran_already_ends_too_and_directories_are_removed(tmp_path: Path) -> None:
    directory = tmp_path / "temporary"
    body = f"""
Path({str(directory)!r}).mkdir()
Path({str(directory)!r}, "file").write_text("left behind")
remove_with_me(Path({str(directory)!r}))
other = subprocess.Popen(["sleep", "600"])
end_with_me(other.pid)
note(other.pid)
"""
    parent = start(body, tmp_path / "pids")
    assert directory.exists()
    kill(parent)
    wait_for(lambda: are_gone(tmp_path / "pids"))
    wait_for(lambda: not directory.exists())


def test_a_process_that_watches_its_parent_ends_with_it(tmp_path: Path) -> None:
    child = PARENT.format(
        body="watch_my_parent(); other = guarded_popen(['sleep', '600']); note(os.getpid(), other.pid)"
    )
    body = f"subprocess.Popen([sys.executable, '-c', {child!r}, sys.argv[1]])"
    parent = start(body, tmp_path / "pids")
    kill(parent)
    wait_for(lambda: are_gone(tmp_path / "pids"))


def test_a_group_that_has_ended_is_forgotten_before_its_number_is_used_again() -> None:
    registered = Registered()
    ended = subprocess.Popen(["true"], start_new_session=True)
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as alive:
        registered.take(f"-{ended.pid}")
        registered.take(f"-{alive.pid}")
        ended.wait()
        registered.forget_ended()
        assert registered.targets == {-alive.pid}
        alive.kill()


def test_a_server_of_postgres_ends_with_its_parent_and_its_data_are_whole(tmp_path: Path) -> None:
    with open_directory() as directory:
        body = f"""
from surefoot.database.embedded import EmbeddedPostgres
server = EmbeddedPostgres(Path({str(directory)!r}))
url = server.start()
import psycopg
with psycopg.connect(url) as connection:
    connection.execute("CREATE TABLE kept AS SELECT 1")
note(server.pid)
"""
        kill(start(body, tmp_path / "pids"))
        wait_for(lambda: are_gone(tmp_path / "pids"))
        server = EmbeddedPostgres(directory)
        try:
            with psycopg.connect(server.start()) as connection:
                assert connection.execute("SELECT * FROM kept").fetchall() == [(1,)]
        finally:
            server.stop()
