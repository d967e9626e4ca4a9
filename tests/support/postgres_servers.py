"""Postgres servers for tests, each in a directory of its own.

Not below `tmp_path`: Postgres refuses to run as root, and the user it runs as then cannot get in there, because pytest
closes its directory to everybody else, again whenever another run begins.
"""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from surefoot.database.embedded import EmbeddedPostgres
from surefoot.process_guard import remove_with_me


@contextmanager
def open_directory() -> Iterator[Path]:
    """A temporary directory that every user can get into."""
    directory = Path(tempfile.mkdtemp(prefix="surefoot-postgres-"))
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
