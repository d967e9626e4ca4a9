"""The project file: where it is found, what it says, and what is refused."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from surefoot.cli.project import Project, find_project
from surefoot.errors import ConfigurationError
from tests.support.corpus import each_of

WHOLE = """
[tool.surefoot]
catalogue = "shop.events:catalogue"
consumers = ["shop.warehouse:warehouse", "shop.billing:billing"]
sagas = ["shop.sagas:order"]
database = "postgresql://shop@localhost:5432/shop"
kafka = "localhost:9092"
schema = "messaging"

[tool.surefoot.commands]
restock = "shop.commands:restock"
"""
COMMANDS = """
import json
import typer
from surefoot.cli.command import Database, Kafka, Schema

def shown(database: Database = None, kafka: Kafka = None, schema: Schema = "surefoot") -> None:
    typer.echo(json.dumps([database, kafka, schema]))

number = 5
"""


def write(folder: Path, text: str, name: str = "pyproject.toml") -> Path:
    (folder / name).write_text(text)
    return folder


def test_it_says_what_commands_need(tmp_path: Path) -> None:
    assert find_project(write(tmp_path, WHOLE)) == Project(
        root=tmp_path,
        catalogue=("shop.events:catalogue",),
        consumers=("shop.warehouse:warehouse", "shop.billing:billing"),
        sagas=("shop.sagas:order",),
        database="postgresql://shop@localhost:5432/shop",
        kafka="localhost:9092",
        schema="messaging",
        commands={"restock": "shop.commands:restock"},
    )


def test_a_file_of_its_own_says_the_same_without_the_name_of_the_tool(tmp_path: Path) -> None:
    write(tmp_path, 'sagas = ["shop.sagas:order"]\n[commands]\nrestock = "shop:restock"\n', "surefoot.toml")
    assert find_project(tmp_path) == Project(
        tmp_path, sagas=("shop.sagas:order",), commands={"restock": "shop:restock"}
    )


def test_the_nearest_one_counts_and_a_file_of_other_tools_is_passed_over(tmp_path: Path) -> None:
    below = tmp_path / "one" / "two"
    below.mkdir(parents=True)
    write(tmp_path, '[tool.surefoot]\nschema = "far"\n')
    write(tmp_path / "one", '[tool.surefoot]\nschema = "near"\n')
    write(below, "[tool.ruff]\nline-length = 100\n")
    assert (find_project(below).schema, find_project(below).root) == ("near", tmp_path / "one")


def test_without_one_nothing_is_said(tmp_path: Path) -> None:
    assert find_project(tmp_path) == Project(tmp_path)


@each_of(
    ("text", "sentence"),
    [
        ("[tool.surefoot", "cannot be read as TOML"),
        ('[tool.surefoot]\ncatalog = "x:y"', "has no key 'catalog'. It knows catalogue, consumers, sagas"),
        ('tool.surefoot = "x"', "must be a table"),
        ("[tool.surefoot]\nsagas = [1]", "sagas must be a text that is not empty, not 1"),
        ('[tool.surefoot]\nkafka = ""', "kafka must be a text that is not empty"),
        ('[tool.surefoot]\ncommands = ["x:y"]', "commands must be a table"),
        ('[tool.surefoot]\ndatabase = "postgresql://shop:secret@db/shop"', "has a password in `database`"),
        ('[tool.surefoot]\ndatabase = "postgresql://db/shop?password=secret"', "has a password in `database`"),
    ],
)
def test_what_cannot_be_right_is_refused_with_a_sentence(text: str, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as refused:
        find_project(write(tmp_path, text))
    assert sentence in str(refused.value)
    assert str(tmp_path / "pyproject.toml") in str(refused.value)
    assert "secret" not in str(refused.value)


def test_two_project_files_in_one_folder_are_refused(tmp_path: Path) -> None:
    write(tmp_path, "[tool.surefoot]\n")
    write(tmp_path, "", "surefoot.toml")
    with pytest.raises(ConfigurationError, match=r"has a project file twice.*Keep one of them"):
        find_project(tmp_path)


def surefoot(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run it there, as from a terminal."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SUREFOOT_", "PG"))}
    return subprocess.run(
        [sys.executable, "-m", "surefoot", *arguments],
        cwd=folder,
        env={**kept, "COLUMNS": "200", **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(COMMANDS)
    settings = 'database = "postgresql://file@db/shop"\nkafka = "file:9092"\nschema = "of_file"\n'
    return write(tmp_path, f'{settings}[commands]\nshown = "shop:shown"\n', "surefoot.toml")


def test_an_option_goes_before_the_environment_and_that_before_the_file(shop: Path) -> None:
    environment = {"SUREFOOT_KAFKA": "environment:9092", "SUREFOOT_SCHEMA": "of_environment"}
    said = surefoot(shop, "shown", "--schema", "of_option", **environment)
    assert json.loads(said.stdout) == ["postgresql://file@db/shop", "environment:9092", "of_option"]


def test_a_command_of_the_project_is_listed_and_those_of_this_repository_are_not(shop: Path) -> None:
    listed = surefoot(shop, "--help").stdout
    assert "│ shown " in listed
    assert "│ relay " in listed
    assert "│ demo " not in listed
    assert surefoot(shop, "demo").returncode == 2


@each_of(
    ("commands", "sentence"),
    [
        ('relay = "shop:shown"', "has a command relay, which is also a command of Surefoot. Rename it."),
        ('shown = "shop:number"', "shop:number, the command shown of the project file, is neither a function"),
        ('shown = "shop:nothing"', "The module shop has no nothing"),
    ],
)
def test_a_command_that_cannot_be_is_refused_with_a_sentence(commands: str, sentence: str, shop: Path) -> None:
    write(shop, f"[commands]\n{commands}\n", "surefoot.toml")
    refused = surefoot(shop, "shown")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert sentence in refused.stderr
    assert "Traceback" not in refused.stderr


def test_the_variables_of_libpq_count_where_nothing_else_is_said(tmp_path: Path, shop: Path) -> None:
    """Nothing listens there: the sentence says which database was tried."""
    variables = {"PGHOST": "127.0.0.1", "PGPORT": "1", "PGUSER": "eve", "PGDATABASE": "orders", "PGPASSWORD": "secret"}
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    write(elsewhere, "", "surefoot.toml")
    refused = surefoot(elsewhere, "migrate", **variables)
    assert refused.returncode == 2
    assert "postgresql://eve@127.0.0.1:1/orders" in refused.stderr
    assert "secret" not in refused.stderr
    assert "file@db" in surefoot(shop, "migrate", **variables).stderr
