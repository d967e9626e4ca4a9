"""A PgBouncer in front of a server: the one on the PATH, or Debian's, fetched once into the cache and not installed."""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal
from urllib.parse import urlsplit

import pytest

from surefoot.database.embedded import _free_port as free_port
from surefoot.database.embedded import _listens as listens
from surefoot.process_guard import guarded_popen
from surefoot.testing.kafka_jars import _alone as alone
from surefoot.testing.kafka_jars import _cache_directory as cache_directory

PACKAGES = ("pgbouncer", "libc-ares2", "libevent-2.1-7")
PoolMode = Literal["session", "transaction"]
START_S = 10


def program() -> tuple[str, dict[str, str]]:
    """PgBouncer, and the environment it needs."""
    if found := shutil.which("pgbouncer"):
        return found, {}
    if shutil.which("apt-get") is None:
        pytest.skip("There is no PgBouncer on the PATH, and no apt-get to fetch Debian's.")
    kept = cache_directory() / "pgbouncer"
    kept.parent.mkdir(parents=True, exist_ok=True)
    with alone(kept.with_suffix(".lock")):
        if not kept.is_dir():
            with TemporaryDirectory(dir=kept.parent, prefix="download-") as temporary:
                subprocess.run(["apt-get", "download", *PACKAGES], cwd=temporary, check=True, capture_output=True)
                for package in Path(temporary).glob("*.deb"):
                    subprocess.run(["dpkg", "-x", package, Path(temporary) / "root"], check=True)
                (Path(temporary) / "root").rename(kept)
    (libraries,) = (kept / "usr" / "lib").glob("*-linux-gnu")
    return str(kept / "usr" / "sbin" / "pgbouncer"), {"LD_LIBRARY_PATH": str(libraries)}


@contextmanager
def pgbouncer(url: str, mode: PoolMode, *, size: int = 20) -> Iterator[str]:
    """The URL of the same database behind a pooler. Its settings are PgBouncer's own, but for mode and size."""
    command, environment = program()
    server = urlsplit(url)
    user = "nobody" if os.geteuid() == 0 else None  # it refuses to run as root
    with TemporaryDirectory(prefix="surefoot-pgbouncer-") as temporary:
        directory, port = Path(temporary), free_port()
        (directory / "users").write_text(f'"{server.username}" "{server.password}"\n')
        (directory / "ini").write_text(
            f"""[databases]
* = host={server.hostname} port={server.port}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = plain
auth_file = {directory / "users"}
pool_mode = {mode}
default_pool_size = {size}
"""
        )
        directory.chmod(0o755)
        if user is not None and environment:  # the cache is root's: another user needs a copy
            copy = shutil.copytree(Path(command).parents[1], directory / "usr", symlinks=True)
            libraries = environment["LD_LIBRARY_PATH"].rpartition("/usr/")[2]
            command, environment = str(copy / "sbin" / "pgbouncer"), {"LD_LIBRARY_PATH": str(copy / libraries)}
        with (directory / "log").open("wb") as log:
            process = guarded_popen(
                [command, str(directory / "ini")], user=user, env={**os.environ, **environment}, stdout=log, stderr=log
            )
        try:
            ends = time.monotonic() + START_S
            while not listens(port) and time.monotonic() < ends and process.poll() is None:
                time.sleep(0.05)
            assert process.poll() is None, (directory / "log").read_text()
            yield server._replace(netloc=f"{server.username}:{server.password}@127.0.0.1:{port}").geturl()
        finally:
            process.terminate()
            process.wait(START_S)
