"""Apache Kafka's jars from Maven Central, in a per-user cache outside the repository, keyed by version.

Downloaded once (some 46 jars, 43 MB); after that no network is needed. The download goes to a directory of its own that
is renamed when it is complete, so that an interrupted one is never used. Whoever comes while another downloads waits:
Maven's own repository must not be written by two.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from surefoot.errors import ConfigurationError

KAFKA_VERSION = "4.3.1"
DOWNLOAD_TIMEOUT_S = 600

_POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>surefoot</groupId><artifactId>kafka</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{KAFKA_VERSION}</version></dependency>
    <dependency><groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>1.7.36</version></dependency>
  </dependencies>
</project>
"""


def kafka_jars() -> Path:
    """The directory with the jars, downloaded if it is not there yet."""
    cached = _cache_directory() / f"kafka-{KAFKA_VERSION}" / "libs"
    if cached.is_dir():
        return cached
    maven = shutil.which("mvn")
    if maven is None:
        raise ConfigurationError(
            "Kafka's jars are not in the cache and there is no Maven to fetch them. Install Java 17 and Maven, or "
            "Docker, or set SUREFOOT_KAFKA to a broker's address."
        )
    cached.parent.mkdir(parents=True, exist_ok=True)
    with _alone(cached.parent / "lock"):
        if not cached.is_dir():  # still: another process may have been first
            with tempfile.TemporaryDirectory(dir=cached.parent, prefix="download-") as temporary:
                _download(maven, Path(temporary))
                (Path(temporary) / "libs").rename(cached)
    return cached


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """One process at a time. The system lets go of the lock if its holder dies."""
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _download(maven: str, directory: Path) -> None:
    (directory / "pom.xml").write_text(_POM)
    command = [maven, "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={directory / 'libs'}"]
    try:
        done = subprocess.run(
            command, cwd=directory, capture_output=True, text=True, timeout=DOWNLOAD_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired as slow:
        raise ConfigurationError(
            f"Maven did not fetch Kafka {KAFKA_VERSION} within {DOWNLOAD_TIMEOUT_S} s. Is Maven Central within reach?"
        ) from slow
    if done.returncode != 0:
        said = (done.stdout + done.stderr).strip()[-800:]
        raise ConfigurationError(f"Maven could not fetch Kafka {KAFKA_VERSION}. It said:\n{said}")


class ClassArchive:
    """The virtual machine's archive of Kafka's classes, beside the jars: with it a broker starts in half the time.

    The first broker that ends cleanly writes it. Each Java installation has an archive of its own.
    """

    def __init__(self, java: str, jars: Path) -> None:
        installation = Path(java).resolve()
        key = hashlib.sha256(f"{installation}:{installation.stat().st_mtime_ns}".encode()).hexdigest()[:12]
        self._kept = jars.with_name(f"classes-{key}.jsa")
        self._written = jars.with_name(f"classes-{key}-{os.getpid()}.jsa")

    @property
    def options(self) -> list[str]:
        """What to tell the virtual machine: use the archive, or write one when it ends."""
        if self._kept.exists():
            return [f"-XX:SharedArchiveFile={self._kept}"]
        return [f"-XX:ArchiveClassesAtExit={self._written}"]

    def keep(self) -> None:
        """Take over what a broker has written at its end, if it has."""
        if self._written.exists():
            self._written.rename(self._kept)


def _cache_directory() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "surefoot"
