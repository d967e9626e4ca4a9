"""Postgres servers for tests, each in a directory of its own.

Not below `tmp_path`: Postgres refuses to run as root, and the user it runs as then cannot get in there, because pytest
closes its directory to everybody else, again whenever another run begins.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from surefoot.database.embedded import EmbeddedPostgres
from surefoot.process_guard import remove_with_me

IN_MEMORY = Path("/dev/shm")  # noqa: S108  # a file system, and each server has a directory of its own there
ENOUGH_BYTES = 4 << 30


def place() -> Path | None:
    """Where servers keep their data: in memory if there is room, where a database is copied in a tenth of the time."""
    if os.environ.get("SUREFOOT_SOAK") or not IN_MEMORY.is_dir() or not os.access(IN_MEMORY, os.W_OK):
        return None
    return IN_MEMORY if shutil.disk_usage(IN_MEMORY).free >= ENOUGH_BYTES else None


@contextmanager
def open_directory() -> Iterator[Path]:
    """A temporary directory that every user can get into."""
    directory = Path(tempfile.mkdtemp(prefix="surefoot-postgres-", dir=place()))
    directory.chmod(0o755)
    remove_with_me(directory)
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def postgres(**options: str) -> Iterator[EmbeddedPostgres]:
    """A server that runs until the block ends, if nobody stops it before."""
    with open_directory() as directory:
        server = EmbeddedPostgres(directory, options=options)
        server.start()
        try:
            yield server
        finally:
            server.stop()
