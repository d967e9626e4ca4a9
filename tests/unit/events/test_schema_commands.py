"""`surefoot schemas export|check`, and the contracts that are committed."""

import json
import re
from pathlib import Path

import jsonschema
import pytest
from typer.testing import CliRunner, Result

from schemas import catalogue
from surefoot.cli.schemas import app
from surefoot.errors import ConfigurationError

COMMITTED = Path(__file__).parents[3] / "schemas" / "json"
NAMED = ["--catalogue", "schemas:catalogue", "--directory"]


def run(command: str, directory: Path, *more: str) -> Result:
    return CliRunner().invoke(app, [command, *NAMED, str(directory), *more], catch_exceptions=False)


def edit(path: Path, *keys: str, value: object) -> None:
    document = json.loads(path.read_text())
    inner = document
    for key in keys[:-1]:
        inner = inner[key]
    inner[keys[-1]] = value
    path.write_text(json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False) + "\n")


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    assert run("export", tmp_path).exit_code == 0
    return tmp_path


def test_the_committed_contracts_are_those_declared() -> None:
    checked = run("check", COMMITTED)
    assert checked.exit_code == 0, checked.output
    assert checked.output.startswith("✓ All 55 contracts are as exported")
    assert len(checked.output.splitlines()) == 1


def test_every_committed_contract_is_a_schema() -> None:
    for path in COMMITTED.glob("*.json"):
        jsonschema.Draft202012Validator.check_schema(json.loads(path.read_text()))


def test_every_domain_has_a_topic_of_events_and_most_have_one_of_commands_of_eight_partitions() -> None:
    domains = {"order", "payment", "warehouse", "shipping", "notification"}
    events, commands = {f"{one}.events" for one in domains}, {f"{one}.commands" for one in domains}
    ours = {"return.events", "charge.events", "saga.replies", "dlq.outcomes"}
    assert {each.topic.name for each in catalogue} == events | commands | ours
    assert {topic.partitions for topic in catalogue.topics()} == {8}
    assert all(each.key is not None for each in catalogue)


def test_a_command_is_named_in_the_imperative_and_says_by_what_it_is_answered() -> None:
    commands = [each for each in catalogue if each.topic.name.endswith(".commands")]
    assert len(commands) == 17
    answered = {
        each.name: re.findall(r"[a-z]+\.[a-z_]+", (each.model.__doc__ or "").split("Answered by")[1])
        for each in commands
    }
    declared = {each.name for each in catalogue}
    assert {name: [one for one in names if one not in declared] for name, names in answered.items()} == {
        name: [] for name in answered
    }


def test_exporting_again_changes_nothing(exported: Path) -> None:
    before = {path.name: path.read_bytes() for path in exported.iterdir()}
    assert run("export", exported).exit_code == 0
    assert {path.name: path.read_bytes() for path in exported.iterdir()} == before
    assert len(before) == 55


def test_contracts_that_are_not_exported_are_listed(exported: Path) -> None:
    (exported / "order.paid.v1.json").unlink()
    checked = run("check", exported)
    assert checked.exit_code == 1
    assert "✗ order.paid.v1.json\n" in checked.output
    assert "1 contracts are not exported yet: run surefoot schemas export" in checked.output


def test_a_compatible_change_needs_an_export(exported: Path) -> None:
    edit(exported / "order.paid.v1.json", "title", value="Old title")
    assert run("check", exported).exit_code == 1
    assert run("export", exported).exit_code == 0
    assert run("check", exported).exit_code == 0


def test_a_breaking_change_is_explained_and_not_exported(exported: Path) -> None:
    path = exported / "order.paid.v1.json"
    edit(path, "properties", "payment_id", "type", value="integer")
    before = path.read_bytes()
    for command in ("check", "export"):
        refused = run(command, exported)
        assert refused.exit_code == 1
        assert "✗ order.paid.v1.json payment_id: A change of its type" in refused.output
    assert path.read_bytes() == before


def test_a_removed_contract_is_breaking(exported: Path) -> None:
    path = exported / "order.gone.v1.json"
    path.write_text((exported / "order.paid.v1.json").read_text())
    refused = run("export", exported)
    assert refused.exit_code == 1
    assert "✗ order.gone.v1.json: The contract was removed" in refused.output
    assert path.exists()


def test_a_breaking_change_may_be_accepted(exported: Path) -> None:
    edit(exported / "order.paid.v1.json", "properties", "payment_id", "type", value="integer")
    gone = exported / "order.gone.v1.json"
    gone.write_text((exported / "order.paid.v1.json").read_text())
    assert run("export", exported, "--accept-breaking").exit_code == 0
    assert run("check", exported).exit_code == 0
    assert not gone.exists()


def test_other_files_are_left_alone(exported: Path) -> None:
    other = exported / "package.v2.json"
    other.write_text('{"name": "not ours"}')
    assert run("export", exported, "--accept-breaking").exit_code == 0
    assert other.read_text() == '{"name": "not ours"}'


def test_an_unreadable_contract_is_a_sentence(exported: Path) -> None:
    (exported / "order.paid.v1.json").write_text("<<<<<<< ours")
    with pytest.raises(ConfigurationError, match="take it from version control again"):
        run("check", exported)
