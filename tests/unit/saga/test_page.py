"""The page about sagas is run: its files are written as they stand there, and its tests pass."""

import re
from pathlib import Path
from typing import get_args

import pytest

from surefoot.saga import Status
from surefoot.saga.stimulus import Verb
from surefoot.testing.saga_kit import SagaKit
from tests.support.document_page import DocumentPage

PAGE = DocumentPage("sagas.md")
TEXT = PAGE.text


def test_every_python_block_is_a_file_of_its_own() -> None:
    PAGE.assert_each_block_is_a_file()
    assert TEXT.count("```python") == 2


def test_every_status_and_every_verb_is_explained() -> None:
    assert sorted(re.findall(r"^\| `([A-Z]+)` \|", TEXT, re.MULTILINE)) == sorted(get_args(Status))
    verbs = TEXT[TEXT.index("## What an operator can do") : TEXT.index("## Versions")]
    assert re.findall(r"^\| ([a-z]+) \|", verbs, re.MULTILINE)[1:] == list(get_args(Verb))


def test_everything_that_the_kit_offers_is_on_the_page() -> None:
    offered = [name for name in vars(SagaKit) if not name.startswith("_")]
    assert "given" in offered
    assert [name for name in offered if f"`{name}" not in TEXT and f"kit.{name}" not in TEXT] == []


@pytest.mark.slow
def test_the_tests_on_the_page_pass(tmp_path: Path) -> None:
    said = PAGE.run_tests(tmp_path)
    assert "5 passed" in said, said
