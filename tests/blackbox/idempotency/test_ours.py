"""Every case, played against the layer in an app of ours, which runs in a process of its own."""

import sys
from collections.abc import Iterator
from subprocess import run

import pytest

from surefoot.database.embedded import EmbeddedPostgres
from tests.blackbox.idempotency.cases import CASES
from tests.blackbox.idempotency.running import play_all
from tests.blackbox.idempotency.serving import served
from tests.blackbox.idempotency.target import Target
from tests.conftest import _database

pytestmark = pytest.mark.slow
WAIT_S = 1
SETTINGS = {
    "SUREFOOT_IDEMPOTENCY_WAIT_IN_FLIGHT": f"PT{WAIT_S}S",
    "SUREFOOT_IDEMPOTENCY_CALL_TIMEOUT": "PT1S",  # for a provider that does not answer
}


@pytest.fixture(scope="module")
def target(
    postgres_server: EmbeddedPostgres, _template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Target]:
    log = tmp_path_factory.mktemp("blackbox") / "server.log"
    with _database(postgres_server, template=_template) as url:
        command = [sys.executable, "-m", "tests.support.idempotency.reference_app", "--database", url]
        with served(command, log, SETTINGS) as base_url:
            yield Target(base_url, longest_wait_s=WAIT_S)


async def test_our_server_passes_every_case(target: Target) -> None:
    outcomes = await play_all(CASES.values(), target)
    assert {outcome.case.sentence: outcome.failure for outcome in outcomes if outcome.failure is not None} == {}


def test_the_command_plays_the_chosen_cases_and_says_what_came_of_them(target: Target) -> None:
    command = [sys.executable, "-m", "tests.blackbox.idempotency", target.base_url, "--only", "take effect once"]
    done = run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 of 2 cases passed." in done.stdout


def test_the_command_says_so_if_there_is_no_server() -> None:
    command = [sys.executable, "-m", "tests.blackbox.idempotency", "http://127.0.0.1:9"]
    done = run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "There is no server at http://127.0.0.1:9" in done.stderr
    assert "Traceback" not in done.stderr
