"""Several processes that find the cache empty: one downloads, and the others wait for it."""

import os
import stat
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from surefoot.errors import ConfigurationError
from surefoot.testing.kafka_jars import kafka_jars

PROCESSES = 3
MAVEN = """#!/bin/sh
echo $$ >> "{directory}/runs"
for word in "$@"; do case "$word" in -DoutputDirectory=*) libs="${{word#*=}}";; esac; done
mkdir "$libs" && echo one > "$libs/one.jar"
sleep 0.5
{ending}
"""


@pytest.fixture
def downloads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and a Maven that takes its time. What it ran is in the file `runs`."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    return tmp_path


def put_maven(directory: Path, *, ending: str) -> None:
    maven = directory / "mvn"
    maven.write_text(MAVEN.format(directory=directory, ending=ending))
    maven.chmod(maven.stat().st_mode | stat.S_IXUSR)


def runs(directory: Path) -> int:
    return len((directory / "runs").read_text().splitlines())


def test_of_several_that_begin_at_once_one_downloads_and_all_have_the_jars(downloads: Path) -> None:
    put_maven(downloads, ending='echo two > "$libs/two.jar"')
    with ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn")) as pool:
        found = [future.result() for future in [pool.submit(_jars) for _ in range(PROCESSES)]]
    assert found == [["one.jar", "two.jar"]] * PROCESSES
    assert runs(downloads) == 1
    assert kafka_jars().name == "libs"
    assert runs(downloads) == 1


def test_what_an_interrupted_download_left_is_not_used(downloads: Path) -> None:
    put_maven(downloads, ending="echo no network; exit 1")
    with pytest.raises(ConfigurationError, match="no network"):
        kafka_jars()
    put_maven(downloads, ending='echo two > "$libs/two.jar"')
    assert _jars() == ["one.jar", "two.jar"]
    assert runs(downloads) == 2


def _jars() -> list[str]:
    return sorted(path.name for path in kafka_jars().iterdir())
