"""What a command line names is found in the user's code, or a sentence says why not."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import schemas
from surefoot.cli.loading import load, load_catalogue
from surefoot.errors import ConfigurationError
from surefoot.events import Catalogue, event_type_of
from tests.support.corpus import each_of
from tests.support.order_types import OrderPlaced, orders


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A user's project, in which the command runs."""
    before = set(sys.modules)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def test_an_attribute_of_a_module_here_is_found(project: Path) -> None:
    (project / "shop_one.py").write_text("class Events:\n    answer = 42\n")
    assert load("shop_one:Events.answer") == 42


def test_a_module_of_an_installed_package_is_found() -> None:
    assert load("tests.support.order_types:orders") is orders


@each_of("reference", ["", "shop", "shop.events", "shop:", ":catalogue", "a:b:c", "./shop.py:x", "a..b:c"])
def test_a_name_without_its_parts_is_refused(reference: str) -> None:
    with pytest.raises(ConfigurationError, match=r"say package.module:attribute"):
        load(reference)


def test_a_module_that_is_not_there_is_refused(project: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"There is no module shop_nowhere\.events"):
        load("shop_nowhere.events:catalogue")
    (project / "shop_two").mkdir()
    (project / "shop_two" / "__init__.py").write_text("")
    with pytest.raises(ConfigurationError, match=r"There is no module shop_two\.events"):
        load("shop_two.events:catalogue")


def test_an_attribute_that_is_not_there_is_refused(project: Path) -> None:
    (project / "shop_three.py").write_text("")
    with pytest.raises(ConfigurationError, match="The module shop_three has no catalogue"):
        load("shop_three:catalogue")


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("shop_four", "import nothing_like_that", "ModuleNotFoundError: No module named 'nothing_like_that'"),
        ("shop_five", "1 / 0", "ZeroDivisionError: division by zero"),
        ("shop_six", "def", "SyntaxError"),
        ("shop_seven", "raise SystemExit(3)", "SystemExit: 3"),
    ],
)
def test_a_module_that_fails_to_import_is_refused_with_its_error(
    name: str, code: str, words: str, project: Path
) -> None:
    (project / f"{name}.py").write_text(code)
    with pytest.raises(ConfigurationError, match=f"{name} could not be imported, it raised {words}"):
        load(f"{name}:x")


def test_a_package_of_ones_own_may_have_any_name(project: Path) -> None:
    (project / "parcels").mkdir()
    (project / "parcels" / "services.py").write_text("answer = 42\n")
    (project / "dlq.py").write_text("answer = 43\n")
    assert load("parcels.services:answer") == 42
    sys.modules.pop("dlq", None)  # this repository's own, if another test has imported it
    assert load("dlq:answer") == 43


def test_catalogues_are_loaded_as_one() -> None:
    together = load_catalogue(["schemas:catalogue", "schemas.payment:payments", "schemas:catalogue"])
    assert len(together) == len(schemas.catalogue)


def test_one_catalogue_is_itself() -> None:
    loaded = load_catalogue(["tests.support.order_types:orders"])
    assert isinstance(loaded, Catalogue)
    assert loaded.find("order.placed", 1) is event_type_of(OrderPlaced)


def test_without_names_those_of_the_project_file_are_loaded() -> None:
    assert load_catalogue([]).find("order.paid", 1) is schemas.catalogue.find("order.paid", 1)


def test_what_is_no_catalogue_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="is a type and no Catalogue"):
        load_catalogue(["surefoot.events:Money"])


def test_without_any_catalogue_there_is_a_sentence(project: Path) -> None:
    with pytest.raises(ConfigurationError, match="No catalogue was named, and no project file names one"):
        load_catalogue([])


def test_a_module_beside_the_project_file_is_found_from_a_folder_below(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "surefoot.toml").write_text("")
    (project / "shop_eight.py").write_text("answer = 42\n")
    (project / "below").mkdir()
    monkeypatch.chdir(project / "below")
    assert load("shop_eight:answer") == 42
