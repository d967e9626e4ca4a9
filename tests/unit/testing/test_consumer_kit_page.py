"""The page about the kit is run: its files are written as they stand there, and its tests pass."""

import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from surefoot.testing.consumer_kit import Outcome

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[3] / "docs" / "testing-consumers.md"
BLOCK = re.compile(r"^```python\n(# (\w+\.py)\n.*?)^```$", re.MULTILINE | re.DOTALL)
SETTINGS = """
[pytest]
asyncio_mode = auto
asyncio_default_fixture_loop_scope = function
filterwarnings = error
"""
SEEDS = 20


def test_every_python_block_is_a_file_of_its_own() -> None:
    text = PAGE.read_text()
    names = [name for _, name in BLOCK.findall(text)]
    assert len(names) == text.count("```python") == len(set(names))


def test_every_outcome_is_explained() -> None:
    explained = re.findall(r"^\| `([A-Z]+)` \|", PAGE.read_text(), re.MULTILINE)
    assert sorted(explained) == sorted(get_args(Outcome))


def test_the_tests_on_the_page_pass(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text(SETTINGS)
    for text, name in BLOCK.findall(PAGE.read_text()):
        (tmp_path / name).write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    tests = PAGE.read_text().count("async def test_")
    assert f"{tests - 1 + SEEDS} passed" in done.stdout, done.stdout + done.stderr
