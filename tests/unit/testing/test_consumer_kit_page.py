"""The page about the kit is run: its files are written as they stand there, and its tests pass."""

import re
from pathlib import Path
from typing import get_args

import pytest

from surefoot.testing.consumer_kit import Outcome
from tests.support.document_page import DocumentPage

pytestmark = pytest.mark.slow

PAGE = DocumentPage("testing-consumers.md")
SEEDS = 20


def test_every_python_block_is_a_file_of_its_own() -> None:
    PAGE.assert_each_block_is_a_file()


def test_every_outcome_is_explained() -> None:
    explained = re.findall(r"^\| `([A-Z]+)` \|", PAGE.text, re.MULTILINE)
    assert sorted(explained) == sorted(get_args(Outcome))


def test_the_tests_on_the_page_pass(tmp_path: Path) -> None:
    said = PAGE.run_tests(tmp_path)
    tests = PAGE.text.count("async def test_")
    assert f"{tests - 1 + SEEDS} passed" in said, said
