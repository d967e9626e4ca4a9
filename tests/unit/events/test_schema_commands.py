"""`surefoot schemas export|check`, and the contracts that are committed."""

import json
from pathlib import Path

import jsonschema
import pytest
from typer.testing import CliRunner, Result

from schemas import catalogue
from surefoot.commands.schemas import app
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
    assert checked.output.startswith("✓ All 16 contracts are as exported")
    assert len(checked.output.splitlines()) == 1


def test_every_committed_contract_is_a_schema() -> None:
    for path in COMMITTED.glob("*.json"):
        jsonschema.Draft202012Validator.check_schema(json.loads(path.read_text()))


def test_every_domain_has_one_topic_of_eight_partitions_and_orders_as_keys() -> None:
    domains = {"order.events", "payment.events", "warehouse.events", "shipping.events"}
    assert {each.topic.name for each in catalogue} == domains | {"saga.replies", "dlq.outcomes"}
    assert {topic.partitions for topic in catalogue.topics()} == {8}
    assert all(each.key is not None for each in catalogue)
    assert all("order_id" in each.model.model_fields for each in catalogue if each.topic.name in domains)


def test_exporting_again_changes_nothing(exported: Path) -> None:
    before = {path.name: path.read_bytes() for path in exported.iterdir()}
    assert run("export", exported).exit_code == 0
    assert {path.name: path.read_bytes() for path in exported.iterdir()} == before
    assert len(before) == 16


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
