"""What `make counts` reads off the source files of a tree."""

from pathlib import Path

import pytest

from bench.counts.tree import Tree


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    files = {
        "surefoot/__init__.py": '__all__ = ["Consumer", "outbox"]\n',
        "surefoot/parking.py": "class Row: ...\n",
        "surefoot/store.py": "from surefoot.parking import Row\n\n\nclass Line: ...\n",
        "surefoot/logging.py": "from surefoot import store\n\n\nclass Line: ...\n\n\nclass _Line: ...\n",
        "surefoot/report.py": "import surefoot.store\n",
        "tests/__init__.py": "",
        "tests/test_store.py": "import surefoot.store\n",
        "scripts/loose.py": "import surefoot.store\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return Tree(tmp_path)


def test_product_modules_are_counted_and_tests_are_not(tree: Tree) -> None:
    assert sorted(tree.modules) == [
        "surefoot",
        "surefoot.logging",
        "surefoot.parking",
        "surefoot.report",
        "surefoot.store",
    ]


def test_a_small_module_with_one_importer_is_found(tree: Tree) -> None:
    assert tree.small_with_one_importer() == ["surefoot.parking"]


def test_a_class_name_that_two_modules_define_is_counted_once(tree: Tree) -> None:
    assert tree.class_names() == {"Row": 1, "Line": 2}
    assert tree.shape().repeated_class_names == 1


def test_a_gerund_is_found_and_a_noun_of_the_trade_is_not(tree: Tree) -> None:
    assert tree.gerund_modules() == ["surefoot.parking"]


def test_the_names_of_the_root_are_counted(tree: Tree) -> None:
    assert tree.shape().root_names == 2
