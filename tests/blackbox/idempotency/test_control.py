"""The suite tells good servers from others: a package that stores answers by key, and not more, fails these cases."""

from pathlib import Path

import pytest

from tests.blackbox.idempotency.cases import CASES
from tests.blackbox.idempotency.control_environment import control_python
from tests.blackbox.idempotency.running import play_all
from tests.blackbox.idempotency.serving import served
from tests.blackbox.idempotency.target import Target

pytestmark = pytest.mark.slow

PASSES = {
    "a_local_request_sent_five_times_takes_effect_once",
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
    # It has no tenants: one gets the answer of the other, and so does whoever has not signed in.
    "the_same_request_of_another_tenant_is_not_answered_with_ours",
    "bad_credentials_get_nothing_that_was_kept",
    # It stores every answer, whoever made it.
    "a_body_that_is_not_valid_can_be_mended_under_the_same_key",
    "bad_credentials_are_not_kept",
    "after_a_failure_the_work_is_done_again_and_its_answer_is_kept",
    # It claims the key before there is a request, and lets nobody have it who comes after a failure.
    "a_caller_who_leaves_within_the_body_has_claimed_nothing",
    "after_an_exception_of_outside_work_there_is_still_one_effect",
    # It writes the answer anew, and without its headers; it gives again what is JSON only.
    "a_local_request_sent_again_gets_the_same_bytes",
    "json_with_spaces_of_its_own_is_given_again_as_it_was",
    "an_answer_that_is_binary_is_given_again",
    # It takes anything as a key, and nothing.
    "fifteen_characters_are_refused",
    "two_lines_with_different_keys_are_refused",
    "a_request_without_a_key_is_refused_where_one_is_required",
    "a_key_in_quotes_and_without_are_the_same_key",
    # It does not let anybody wait, and does not say when to come again.
    "one_that_comes_shortly_before_the_end_waits_and_gets_the_answer",
    "a_local_request_in_flight_for_long_is_answered_409_with_retry_after",
}


async def test_a_package_that_only_stores_answers_by_key_fails_the_named_cases_and_passes_others(
    tmp_path: Path,
) -> None:
    script = Path(__file__).with_name("control_server.py")
    cases = [CASES[name] for name in sorted(PASSES | FAILS)]
    with served([str(control_python()), str(script)], tmp_path / "control.log") as base_url:
        target = Target(base_url, longest_wait_s=0.5, patience_s=3)
        outcomes = await play_all(cases, target)
    failures = {outcome.case.name: outcome.failure for outcome in outcomes if outcome.failure is not None}
    assert set(failures) == FAILS, failures
