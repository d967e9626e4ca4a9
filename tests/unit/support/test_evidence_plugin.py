"""The end of a run keeps what the tests that passed have shown, and fails a whole run that has shown too little."""

import json
from pathlib import Path

import pytest

from tests.support.evidence import plugin
from tests.support.evidence.record import DIRECTORY

pytest_plugins = ["pytester"]
CONFTEST = 'pytest_plugins = ["tests.support.targets", "tests.support.evidence.plugin"]'
TESTS = """
import pytest
from tests.support.evidence import record

@pytest.mark.promise("P1")
def test_passes():
    record("kill", "relay.claimed")

def test_fails():
    record("stop", "relay.claimed")
    assert False

@pytest.fixture
def breaks():
    yield
    raise ValueError

def test_fails_in_its_teardown(breaks):
    record("stop", "relay.marked")

@pytest.mark.mutation
def test_is_deep():
    pass
"""
PASSES = "def test_passes(): pass"


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.Pytester:
    monkeypatch.setenv(DIRECTORY, str(tmp_path))
    monkeypatch.setattr(plugin, "KEPT", tmp_path / "kept")
    monkeypatch.setattr(plugin, "missing", lambda target, proofs: [f"{len(proofs)} proofs are too few."])
    pytester.makeconftest(CONFTEST)
    pytester.makeini("[pytest]\ntestpaths = tests")
    pytester.mkdir("tests")
    return pytester


def played(run: pytest.Pytester, tests: str, *arguments: str) -> pytest.RunResult:
    (run.path / "tests" / "test_one.py").write_text(tests)
    return run.runpytest_inprocess("--target", "test", "-p", "no:cacheprovider", "-p", "no:asyncio", *arguments)


def test_only_what_tests_that_passed_have_shown_is_kept(run: pytest.Pytester, tmp_path: Path) -> None:
    done = played(run, TESTS)
    assert done.ret == pytest.ExitCode.TESTS_FAILED
    (kept,) = json.loads((tmp_path / "kept" / "test.json").read_text())
    assert (kept["killed"], kept["frozen"], kept["promises"]) == (["relay.claimed"], [], ["P1"])
    done.stdout.no_fnmatch_line("*too few*")  # a run that failed is not judged


def test_a_whole_run_that_shows_too_little_fails_and_says_what_is_missing(run: pytest.Pytester) -> None:
    done = played(run, PASSES)
    assert done.ret == pytest.ExitCode.TESTS_FAILED
    done.stdout.fnmatch_lines(["0 proofs are too few."])


@pytest.mark.parametrize("chosen", [("-k", "passes"), ("--maxfail", "1"), ("tests/test_one.py",)])
def test_a_run_of_chosen_tests_is_neither_judged_nor_kept(
    run: pytest.Pytester, tmp_path: Path, chosen: tuple[str, ...]
) -> None:
    assert played(run, PASSES, *chosen).ret == pytest.ExitCode.OK
    assert not (tmp_path / "kept").exists()


def test_a_promise_that_does_not_exist_is_refused(run: pytest.Pytester) -> None:
    done = played(run, 'import pytest\n\n@pytest.mark.promise("P99")\n' + PASSES)
    done.stdout.fnmatch_lines(["*There is no promise P99*"])
    assert done.ret == pytest.ExitCode.TESTS_FAILED
