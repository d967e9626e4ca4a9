"""The embedded server outlives what happens to laptops: it is stopped, cut off, interrupted, and started again."""

import os
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from surefoot.database.embedded import EmbeddedPostgres
from surefoot.errors import ConfigurationError
from tests.support.ports import free_port
from tests.support.postgres_servers import open_directory

pytestmark = pytest.mark.slow


@pytest.fixture
def directory() -> Iterator[Path]:
    with open_directory() as directory:
        yield directory
        EmbeddedPostgres(directory).stop()


def ask(url: str, statement: str) -> list[tuple[object, ...]]:
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(statement)
        return cursor.fetchall() if cursor.description else []


def remember(url: str) -> None:
    ask(url, "CREATE TABLE things AS SELECT 42 AS number")


def remembered(url: str) -> list[tuple[object, ...]]:
    return ask(url, "SELECT number FROM things")


def interrupt_set_up(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C after initdb, when the server still lets everybody in."""

    def interrupted(*arguments: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(EmbeddedPostgres, "_set_password", interrupted)
        with pytest.raises(KeyboardInterrupt):
            EmbeddedPostgres(directory).start()
    assert (directory / "data" / "PG_VERSION").exists()


def test_what_was_stored_is_there_after_a_stop_and_a_start(directory: Path) -> None:
    server = EmbeddedPostgres(directory)
    remember(server.start())
    server.stop()
    assert server.pid is None

    assert remembered(EmbeddedPostgres(directory).start()) == [(42,)]


def test_starting_a_server_that_runs_finds_it(directory: Path) -> None:
    first, second = EmbeddedPostgres(directory), EmbeddedPostgres(directory)

    assert first.start() == second.start()
    assert first.pid == second.pid
    assert first.pid is not None


def test_a_pid_file_whose_pid_is_somebody_elses_now_is_not_believed(directory: Path) -> None:
    server = EmbeddedPostgres(directory)
    remember(server.start())
    pid_file = directory / "data" / "postmaster.pid"
    lines = pid_file.read_text().splitlines()
    server.stop()
    # What a power cut leaves. After the reboot the pid is another's: here, this test's.
    lines[0], lines[3] = str(os.getpid()), str(free_port())
    pid_file.write_text("\n".join(lines) + "\n")
    again = EmbeddedPostgres(directory)
    assert again.pid is None

    assert remembered(again.start()) == [(42,)]
    assert again.pid not in (None, os.getpid())


def test_a_wrong_password_is_refused(directory: Path) -> None:
    server = EmbeddedPostgres(directory)
    server.start()

    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        ask(f"postgresql://postgres:wrong@127.0.0.1:{server.port}/postgres", "SELECT 1")


def test_a_set_up_that_was_interrupted_is_done_again(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupt_set_up(directory, monkeypatch)

    server = EmbeddedPostgres(directory)

    assert ask(server.start(), "SELECT 1") == [(1,)]
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        ask(f"postgresql://postgres:wrong@127.0.0.1:{server.port}/postgres", "SELECT 1")


def test_a_database_that_we_did_not_set_up_is_left_alone(directory: Path) -> None:
    theirs = directory / "data" / "PG_VERSION"
    theirs.parent.mkdir()
    theirs.write_text("16\n")

    with pytest.raises(ConfigurationError, match="may be somebody's data"):
        EmbeddedPostgres(directory).start()

    assert theirs.read_text() == "16\n"
