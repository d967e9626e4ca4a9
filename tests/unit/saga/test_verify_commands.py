"""`surefoot saga verify` and `surefoot saga diagram`."""

import pytest
from typer.testing import CliRunner, Result

from surefoot.cli.saga import definitions as saga_definitions
from surefoot.cli.saga.definitions import app
from surefoot.errors import ConfigurationError
from surefoot.saga.verify import Limits
from tests.support.saga import planted_sagas

wrong = planted_sagas.undo_missing()
right = planted_sagas.one_step()
both = [right, wrong]
no_saga = 7
HERE = "tests.unit.saga.test_verify_commands"


def run(*words: str) -> Result:
    return CliRunner().invoke(app, list(words), catch_exceptions=False)


def test_what_is_proved_is_one_line_with_the_states_and_the_time() -> None:
    ran = run("verify", f"{HERE}:right", "--attempts", "1", "--actions", "0")
    assert ran.exit_code == 0
    line, *more = ran.stdout.splitlines()
    assert line.startswith("✓ one_step version 1 is proved: 25 states, ")
    assert " s  COMPLETED 1 · COMPENSATED 3 · FAILED 1 · STUCK 8" in line
    assert not more


def test_what_is_wrong_is_shown_as_messages_and_ends_with_the_sentence() -> None:
    ran = run("verify", f"{HERE}:wrong")
    assert ran.exit_code == 1
    first, *path, sentence, meaning = [line.rstrip() for line in ran.stdout.splitlines()]
    assert first.startswith("✗ undo_missing version 1 is wrong (undone), found among ")
    assert path == [
        "    1  the saga begins                                              RUNNING, waits for reserve",
        "    2  orchestrator → reserve: do (attempt 1)",
        "    3  reserve → orchestrator: failed, outcome unknown (attempt 1)  FAILED",
    ]
    assert sentence == "  The saga is FAILED, and reserve may still be done: nothing bars it."
    assert meaning.startswith("  undone: COMPENSATED or FAILED")


def test_several_sagas_get_a_verdict_each_and_one_that_is_wrong_is_enough_to_fail() -> None:
    ran = run("verify", f"{HERE}:wrong", f"{HERE}:both", "--attempts", "1")
    assert ran.exit_code == 1
    verdicts = [line[:13] for line in ran.stdout.splitlines() if line[0] in "✓✗"]
    assert verdicts == ["✗ undo_missin", "✓ one_step ve"]


@pytest.mark.parametrize("name", ["no_saga", "HERE"])
def test_what_is_no_saga_is_refused_with_a_sentence(name: str) -> None:
    with pytest.raises(ConfigurationError, match="and no Saga: name the object that steps are added to"):
        run("verify", f"{HERE}:{name}")


def test_an_interrupted_proof_is_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("surefoot.saga.verify.verify", interrupted)
    ran = run("verify", f"{HERE}:right")
    assert ran.exit_code == 130
    assert ran.stdout == "one_step version 1: interrupted after 0 states. Nothing is proved.\n"


def test_the_limits_that_the_command_offers_are_those_of_the_verifier() -> None:
    offered = (saga_definitions.ATTEMPTS, saga_definitions.ACTIONS, saga_definitions.STATES)
    assert offered == (Limits().attempts, Limits().actions, Limits().states)


def test_a_diagram_is_printed_for_each_saga() -> None:
    ran = run("diagram", f"{HERE}:both")
    assert ran.exit_code == 0
    assert [line for line in ran.stdout.splitlines() if not line.startswith(" ")] == [
        "%% one_step version 1",
        "flowchart TD",
        "%% undo_missing version 1",
        "flowchart TD",
    ]
