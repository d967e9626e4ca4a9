"""The suite tells good servers from others: a package that stores answers by key, and not more, fails these cases."""

import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.blackbox.idempotency.cases import CASES
from tests.blackbox.idempotency.running import play_all
from tests.blackbox.idempotency.serving import served
from tests.blackbox.idempotency.target import Target

pytestmark = pytest.mark.slow

PASSES = {
    "local_requests_sent_five_times_take_effect_once",
    "the_first_answer_is_not_called_a_replay_and_every_later_one_is",
    "id_and_time_that_were_minted_are_the_same",
    "a_decline_is_kept_and_given_again",
    "a_caller_who_leaves_a_local_route_before_the_answer_gets_it_later",
    "requests_with_different_keys_do_not_wait_for_each_other",
    "a_body_in_chunks_is_the_same_as_one_in_a_piece",
    "get_is_left_alone",
}
FAILS = {
    # It has no fingerprint: another request gets the answer of the first.
    "another_amount_under_the_same_key_is_refused",
    "another_path_is_refused",
    # It has no tenants: one gets the answer of the other, and so does a caller who has not signed in.
    "the_same_request_of_another_tenant_is_not_answered_with_ours",
    "bad_credentials_get_nothing_that_was_kept",
    # It stores every answer, also those of the framework.
    "a_body_that_is_not_valid_can_be_mended_under_the_same_key",
    "bad_credentials_are_not_kept",
    "after_a_failure_the_work_is_done_again_and_its_answer_is_kept",
    # It claims the key before there is a request, and keeps it from requests after a failure.
    "a_caller_who_leaves_within_the_body_has_claimed_nothing",
    "after_an_exception_of_outside_work_there_is_still_one_effect",
    # It writes the answer anew, and without its headers; it gives again what is JSON only.
    "local_requests_sent_again_get_the_same_bytes",
    "json_with_spaces_of_its_own_is_given_again_as_it_was",
    "an_answer_that_is_binary_is_given_again",
    # It takes anything as a key, and nothing.
    "fifteen_characters_are_refused",
    "two_lines_with_different_keys_are_refused",
    "a_request_without_a_key_is_refused_where_one_is_required",
    "a_key_in_quotes_and_without_are_the_same_key",
    # It lets no request wait, and does not say when to come again.
    "one_that_comes_shortly_before_the_end_waits_and_gets_the_answer",
    "a_local_request_in_flight_for_long_is_answered_409_with_retry_after",
}
PINNED = (
    "asgi-idempotency-header==0.2.0",
    "anyio==3.7.1",
    "click==8.3.3",
    "fastapi==0.70.1",
    "h11==0.16.0",
    "idna==3.20",
    "pydantic==1.10.27",
    "redis==4.6.0",
    "sniffio==1.3.1",
    "starlette==0.16.0",
    "typing_extensions==4.16.0",
    "uvicorn==0.54.0",
)
"""The package imports FastAPI and Redis wherever it is used, and wants a FastAPI of this age. No Redis is needed."""
INSTALL_TIMEOUT_S = 240


async def test_a_package_that_only_stores_answers_by_key_fails_the_named_cases_and_passes_others(
    tmp_path: Path,
) -> None:
    script = Path(__file__).with_name("control_server.py")
    cases = [CASES[name] for name in sorted(PASSES | FAILS)]
    with served([str(control_python()), str(script)], tmp_path / "control.log") as base_url:
        target = Target(base_url, longest_wait_s=2, patience_s=3)
        outcomes = await play_all(cases, target)
    failures = {outcome.case.name: outcome.failure for outcome in outcomes if outcome.failure is not None}
    assert set(failures) == FAILS, failures


def control_python() -> Path:
    """The interpreter of an environment of its own for the package, in a per-user cache outside the repository.

    Made once; after that no network is needed. It is made under a name of its own and renamed when it is complete, so
    that an interrupted one is never used."""
    wanted = hashlib.sha256("\n".join([sys.version, *PINNED]).encode()).hexdigest()[:12]
    cached = _cache_directory() / f"idempotency-control-{wanted}"
    if not cached.is_dir():
        cached.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cached.parent, prefix="environment-") as temporary:
            made = Path(temporary) / "made"
            _make(made)
            try:
                made.rename(cached)
            except OSError:
                # Another process finished first; its environment is as good as ours.
                if not cached.is_dir():
                    raise
    return cached / "bin" / "python"


def _make(directory: Path) -> None:
    _run([sys.executable, "-m", "venv", str(directory)])
    pip = [str(directory / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    _run([*pip, "--no-deps", *PINNED])


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_S, check=False)
    assert done.returncode == 0, f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}"


def _cache_directory() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "surefoot"
