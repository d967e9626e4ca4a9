"""`surefoot dlq …` against a real service with a real consumer behind it: all of an operator's work, from a terminal.

Each command is also given with a deliberate mistake: that is a sentence and exit code 2, never a traceback.
"""

import json
import os
import signal
from subprocess import PIPE
from typing import Any

import pytest

from tests.support import processes
from tests.support.corpus import each_of
from tests.support.dlq.fixtures import ground
from tests.support.dlq.served_harness import Given, Ground, given, order

pytestmark = pytest.mark.slow
__all__ = ["given", "ground"]

NOBODY = "00000000-0000-0000-0000-000000000000"


def group_of(ground: Ground, letter_id: str) -> str:
    return str(ground.value("SELECT fingerprint FROM surefoot.dlq_events WHERE id = %s::uuid", letter_id))


def as_json(said: str) -> Any:
    return json.loads(said)


def test_groups_say_what_is_broken_in_a_line(ground: Ground, given: Given) -> None:
    (letter,) = ground.dead("groups-1", country="XX")
    done = given(ground, "dlq", "groups", "--consumer", "demo-labels", "--type", "order.placement_requested")
    assert done.code == 0, done.err
    (line,) = [line for line in done.out.splitlines() if group_of(ground, letter) in line]
    assert "NoTariff: There is no tariff for parcels to XX." in line
    assert given(ground, "dlq", "groups", "--consumer", "nobody").out == "Nothing that fits is dead.\n"


def test_letters_are_listed_by_what_they_have_in_common(ground: Ground, given: Given) -> None:
    (first,) = ground.dead("list-1")
    (second,) = ground.dead("list-2")  # and so the newer one, which is listed first
    found = as_json(given(ground, "dlq", "list", "--key", "list-1", "--json").out)
    assert [letter["id"] for letter in found] == [first]
    group = group_of(ground, second)
    listed = given(ground, "dlq", "list", "--group", group, "--status", "open", "--failed-after", "1h", "--limit", "1")
    assert second in listed.out
    assert first not in listed.out
    assert "There may be more: these are the first 1" in listed.out
    assert given(ground, "dlq", "list", "--failed-before", "3d").out == "There is no dead letter that fits.\n"


def test_a_letter_is_shown_with_its_payload_masked_and_what_can_be_done(ground: Ground, given: Given) -> None:
    (letter,) = ground.dead("show-1", country="XX")
    shown = given(ground, "dlq", "show", letter, person="vera")
    assert shown.code == 0, shown.err
    assert "demo-labels gave up on it" in shown.out.splitlines()[0]
    assert f"surefoot dlq replay {letter}" in shown.out
    assert "in quote" in shown.out, "the stack names the handler"
    assert "Ada Buyer" not in shown.out
    assert "•••" in shown.out
    assert as_json(given(ground, "dlq", "show", letter, "--json").out)["key"] == "show-1"


def test_what_is_masked_is_revealed_to_an_admin_with_a_reason_and_recorded(ground: Ground, given: Given) -> None:
    (letter,) = ground.dead("reveal-1", country="XX")
    refused = given(ground, "dlq", "reveal", letter, "--reason", "curious", person="olga")
    assert refused.code == 2
    assert "needs ADMIN" in refused.err
    revealed = given(ground, "dlq", "reveal", letter, "--reason", "the buyer asks")
    assert "Ada Buyer" in revealed.out
    recorded = "SELECT array_agg(outcome || ': ' || reason ORDER BY number) FROM surefoot.audit_log WHERE about LIKE %s"
    said = ground.value(recorded, f"%{letter}%")
    assert isinstance(said, list)
    assert said[-1] == "done: the buyer asks"
    assert said[0].startswith("refused: ")


def test_a_mended_letter_is_replayed_and_followed_to_its_end(ground: Ground, given: Given) -> None:
    (letter,) = ground.dead("replay-1")
    ground.mend("replay-1")
    done = given(ground, "dlq", "replay", letter, "--follow", "--reason", "the old quote is gone")
    assert done.code == 0, done.out + done.err
    assert "replay of 1 dead letter." in done.out
    assert "Of 1, 1 went well and 0 did not." in done.out
    assert ground.status(letter) == "REPLAYED"


def test_a_replay_that_fails_again_is_told_with_exit_code_1(ground: Ground, given: Given) -> None:
    (letter,) = ground.dead("again-1", country="XX")
    done = given(ground, "dlq", "replay", letter, "--follow", "--reason", "let us see")
    assert done.code == 1, done.out + done.err
    assert "failed_again: 1" in done.out
    (line,) = [line for line in done.out.splitlines() if line.startswith("Which did not go well")]
    shown = given(ground, "dlq", "job", line.split()[-1])
    assert letter in shown.out
    assert "There is no tariff for parcels to XX." in shown.out
    assert ground.status(letter) == "OPEN"


def test_a_dry_run_changes_nothing_and_says_what_waits(ground: Ground, given: Given) -> None:
    (letter,) = ground.dead("dry-1", country="XX")
    ground.place(order("dry-1"))
    ground.wait_for("SELECT count(*) = 2 FROM surefoot.parked_events WHERE key = 'dry-1'")
    done = given(ground, "dlq", "replay", letter, "--dry-run", "--follow", "--reason", "is it safe?")
    assert done.code == 0, done.out + done.err
    assert "inspected: 1" in done.out
    assert "1 later events wait behind them." in done.out
    assert ground.status(letter) == "OPEN"


def test_what_is_not_open_is_left_out_and_said(ground: Ground, given: Given) -> None:
    first, second = ground.dead("left-1", "left-2")
    ground.mend("left-1", "left-2")
    assert given(ground, "dlq", "replay", first, "--follow", "--reason", "mended").code == 0
    again = given(ground, "dlq", "replay", first, second, "--follow", "--reason", "mended")
    assert again.code == 0, again.err
    assert "Left out: 1 replayed." in again.out
    third = given(ground, "dlq", "replay", first, second, "--reason", "mended")
    assert third.code == 2
    assert "None of what was asked for is open" in third.err


def test_an_edited_event_takes_the_dead_ones_place(ground: Ground, given: Given) -> None:
    (letter,) = ground.dead("edit-1", country="XX")
    revealed = as_json(given(ground, "dlq", "reveal", letter, "--reason", "to mend it", "--json").out)
    payload = revealed["payload"] | {"ship_to": revealed["payload"]["ship_to"] | {"country": "CH"}}
    (ground.directory / "mended.json").write_text(json.dumps(payload))
    done = given(ground, "dlq", "edit", letter, "--payload", "@mended.json", "--follow", "--reason", "it is CH")
    assert done.code == 0, done.out + done.err
    assert ground.status(letter) == "SUPERSEDED"
    assert ground.value("SELECT cents FROM labels.quotes WHERE order_id = 'edit-1'") == 990


def test_a_job_is_paused_resumed_and_cancelled(ground: Ground, given: Given) -> None:
    letters = ground.dead("job-1", "job-2", "job-3", country="XX")
    slowly = ("--rate", "0.001", "--reason", "slowly", "--json")
    job = as_json(given(ground, "dlq", "replay", *letters, *slowly).out)["job_id"]
    paused = given(ground, "dlq", "pause", job, "--reason", "wait")
    assert paused.code == 0, paused.err
    assert "PAUSED" in paused.out
    followed = given(ground, "dlq", "job", job, "--follow")
    assert followed.code == 1
    assert f"surefoot dlq resume {job}" in followed.out
    assert "RUNNING" in given(ground, "dlq", "resume", job, "--reason", "go on").out
    cancelled = given(ground, "dlq", "cancel", job, "--reason", "not today")
    assert "CANCELL" in cancelled.out
    ended = given(ground, "dlq", "job", job, "--follow", "--json")
    assert ended.code == 1
    assert as_json(ended.out)["status"] == "CANCELLED"
    assert [ground.status(letter) for letter in letters] == ["OPEN", "OPEN", "OPEN"]
    assert job in given(ground, "dlq", "jobs", "--limit", "200").out


def test_a_discard_takes_two_people_and_the_hash_of_what_was_seen(ground: Ground, given: Given) -> None:
    (letter,) = ground.dead("discard-1", country="XX")
    asked = as_json(given(ground, "dlq", "discard", letter, "--reason", "a test order", "--json", person="ben").out)
    waiting = given(ground, "dlq", "approvals", "--status", "waiting")
    assert asked["id"] in waiting.out
    hash_of = ("--set-hash", asked["set_hash"])
    own = given(ground, "dlq", "approve", asked["id"], *hash_of, "--reason", "yes", person="ben")
    assert own.code == 2
    assert "somebody else" in own.err
    assert ground.status(letter) == "DISCARD_REQUESTED"
    made = ground.run("dlq", "token", "create", "--person", "carl", "--role", "SUPER_ADMIN")
    ground.tokens["carl"] = made.out.strip()
    shown = given(ground, "dlq", "approvals", asked["id"])
    assert f"surefoot dlq approve {asked['id']} --set-hash {asked['set_hash']}" in shown.out
    assert letter in shown.out
    done = given(ground, "dlq", "approve", asked["id"], *hash_of, "--reason", "yes", "--follow", person="carl")
    assert done.code == 0, done.out + done.err
    assert ground.status(letter) == "DISCARDED"


def test_a_discard_that_is_refused_leaves_the_letter_open(ground: Ground, given: Given) -> None:
    (letter,) = ground.dead("refuse-1", country="XX")
    asked = as_json(given(ground, "dlq", "discard", "--key", "refuse-1", "--reason", "old", "--json").out)
    refused = given(ground, "dlq", "refuse", asked["id"], "--reason", "it is real", person="ben")
    assert refused.code == 0, refused.err
    assert "REFUSED" in refused.out
    assert ground.status(letter) == "OPEN"


def test_letters_are_exported_masked(ground: Ground, given: Given) -> None:
    (letter,) = ground.dead("export-1", country="XX")
    lines = given(ground, "dlq", "export", "--key", "export-1", "--format", "jsonl").out.splitlines()
    assert [json.loads(line)["id"] for line in lines] == [letter]
    written = given(ground, "dlq", "export", "--key", "export-1", "--output", "letters.csv")
    assert written.code == 0, written.err
    exported = (ground.directory / "letters.csv").read_text()
    assert letter in exported
    assert "Ada Buyer" not in exported


def test_the_report_is_printed_or_written(ground: Ground, given: Given) -> None:
    ground.dead("report-1", country="XX")
    assert "## demo-labels" in given(ground, "dlq", "report").out
    assert given(ground, "dlq", "report", "--last-week", "--output", "report.md").code == 0
    assert (ground.directory / "report.md").read_text().startswith("# Dead letters from ")


def test_a_token_is_printed_alone_once_and_opens_nothing_when_revoked(ground: Ground, given: Given) -> None:
    made = given(ground, "dlq", "token", "create", "--person", "dora", "--role", "viewer", "--days", "1")
    token = made.out.strip()
    assert made.out == f"{token}\n"
    assert "dora is VIEWER with it" in made.err
    ground.tokens["dora"] = token
    assert given(ground, "dlq", "groups", person="dora").code == 0
    tokens = as_json(given(ground, "dlq", "token", "list", "--json").out)
    (its,) = [line["id"] for line in tokens if line["person"] == "dora"]
    assert token not in given(ground, "dlq", "token", "list").out
    assert given(ground, "dlq", "token", "revoke", its, "--reason", "she left").code == 0
    refused = given(ground, "dlq", "groups", person="dora")
    assert refused.code == 2
    assert "revoked" in refused.err


def test_the_doctor_says_how_many_are_open(ground: Ground, given: Given) -> None:
    ground.dead("doctor-1", country="XX")
    opened = ground.value("SELECT count(*) FROM surefoot.dlq_events WHERE status = 'OPEN'")
    assert f"! {opened} dead letter(s) are open: somebody has to decide about them." in given(ground, "doctor").out


def test_who_stops_watching_is_told_that_the_job_goes_on(ground: Ground) -> None:
    (letter,) = ground.dead("watch-1", country="XX")
    held = ground.dead("watch-2", country="XX")
    command = ["dlq", "replay", letter, *held, "--rate", "0.001", "--follow", "--reason", "slowly"]
    process = processes.start(["surefoot", *command], environment=ground.environment("ana"), stdout=PIPE, stderr=PIPE)
    assert process.stdout is not None
    job_id = process.stdout.readline().split()[1]
    assert "RUNNING" in process.stdout.readline()
    os.kill(process.pid, signal.SIGINT)
    _, complained = process.communicate(timeout=30)
    assert process.returncode == 130
    assert f"the job goes on. Look: surefoot dlq job {job_id}." in complained
    assert f"surefoot dlq cancel {job_id}" in complained
    assert "Traceback" not in complained
    assert ground.value("SELECT status::text FROM surefoot.dlq_jobs WHERE id = %s::uuid", job_id) == "RUNNING"
    assert ground.run("dlq", "cancel", job_id, "--reason", "enough").code == 0


def test_a_narrow_terminal_and_a_pipe_both_show_ids_whole(ground: Ground) -> None:
    (letter,) = ground.dead("narrow-1", country="XX")
    for columns, forced in (("40", "1"), ("200", "1"), ("20", "")):
        environment = {"COLUMNS": columns} | ({"FORCE_COLOR": "1"} if forced else {})
        done = ground.run("dlq", "list", "--key", "narrow-1", **environment)
        assert done.code == 0, done.err
        assert letter in done.out, columns


MISTAKES = {
    "groups with a status that is none": ("dlq groups --status NONE", "status"),
    "list with a time that is none": ("dlq list --failed-after yesterday", "is no time"),
    "show with an id that is none": ("dlq show order-7", "id"),
    "show of a letter that is not there": (f"dlq show {NOBODY}", f"There is no dead letter {NOBODY}"),
    "reveal without a reason": (f"dlq reveal {NOBODY}", "Say why, with --reason"),
    "reveal of a letter that is not there": (f"dlq reveal {NOBODY} --reason x", "There is no dead letter"),
    "export in a format that is none": ("dlq export --format xml", "take csv or jsonl"),
    "export to a place that is none": ("dlq export --output /nowhere/x.csv", "cannot be written"),
    "replay of nothing": ("dlq replay --reason x", "Say which dead letters are meant"),
    "replay of ids and a filter": (f"dlq replay {NOBODY} --key a --reason x", "Say either which ids"),
    "replay without a reason": (f"dlq replay {NOBODY}", "Say why, with --reason"),
    "replay of a letter that is not there": (f"dlq replay {NOBODY} --reason x", "None of what was asked for is open"),
    "replay at a rate that is none": (f"dlq replay {NOBODY} --rate 0 --reason x", "rate"),
    "edit without a payload": (f"dlq edit {NOBODY} --reason x", "Say what the event is to be"),
    "edit with a payload that is no JSON": (f"dlq edit {NOBODY} --payload {{ --reason x", "is no JSON"),
    "edit with a file that is not there": (f"dlq edit {NOBODY} --payload @none.json --reason x", "cannot be read"),
    "edit of a letter that is not there": (f"dlq edit {NOBODY} --payload 1 --reason x", "There is no dead letter"),
    "a job that is not there": (f"dlq job {NOBODY}", f"There is no job {NOBODY}"),
    "following a job that is not there": (f"dlq job {NOBODY} --follow", f"There is no job {NOBODY}"),
    "pause of a job that is not there": (f"dlq pause {NOBODY} --reason x", "There is no job"),
    "resume without a reason": (f"dlq resume {NOBODY}", "Say why, with --reason"),
    "cancel of a job that is not there": (f"dlq cancel {NOBODY} --reason x", "There is no job"),
    "discard of nothing": ("dlq discard --reason x", "Say which dead letters are meant"),
    "discard of a letter that is not there": (f"dlq discard {NOBODY} --reason x", "None of what was asked for is open"),
    "approvals of a status that is none": ("dlq approvals --status MAYBE", "is not a status of a request"),
    "an approval that is not there": (f"dlq approvals {NOBODY}", "There is no request"),
    "approve without the hash": (f"dlq approve {NOBODY} --reason x", "Say which set you have looked at"),
    "approve with a hash that is none": (f"dlq approve {NOBODY} --set-hash x --reason x", "set_hash"),
    "refuse of a request that is not there": (f"dlq refuse {NOBODY} --reason x", "There is no request"),
    "a token for a role that is none": ("dlq token create --person x --role KING", "is no role"),
    "a token for nobody": ("dlq token create --person anonymous --role VIEWER", "cannot be the name of a person"),
    "revoking what is no token": ("dlq token revoke sft_abc", "is not a token's id"),
    "revoking a token that is not there": (f"dlq token revoke {NOBODY}", "There is no token"),
    "a report to a place that is none": ("dlq report --output /dev/null/x.md", "cannot be written"),
}


@each_of("mistake", MISTAKES)
def test_a_mistake_is_answered_with_a_sentence(mistake: str, ground: Ground, given: Given) -> None:
    line, says = MISTAKES[mistake]
    done = given(ground, *line.split(), person="ben")
    assert done.code == 2, done.out + done.err
    assert says in done.err
    assert done.err.rstrip().endswith((".", "`", ")"))
    assert "Traceback" not in done.err


COMMANDS = (
    "groups",
    "list",
    f"show {NOBODY}",
    f"reveal {NOBODY} --reason x",
    f"replay {NOBODY} --reason x",
    f"edit {NOBODY} --payload 1 --reason x",
    "jobs",
    f"job {NOBODY}",
    f"pause {NOBODY} --reason x",
    f"discard {NOBODY} --reason x",
    "approvals",
    f"approve {NOBODY} --set-hash {'0' * 64} --reason x",
    f"refuse {NOBODY} --reason x",
    "export",
)


@each_of("command", COMMANDS)
def test_without_a_token_nothing_is_told_but_how_to_get_one(command: str, ground: Ground, given: Given) -> None:
    done = given(ground, "dlq", *command.split(), person="nobody")
    assert (done.code, done.out) == (2, "")
    assert "SUREFOOT_DLQ_TOKEN" in done.err


@each_of("command", COMMANDS)
def test_a_service_that_is_away_is_a_sentence(command: str, ground: Ground, given: Given) -> None:
    done = given(ground, "dlq", *command.split(), SUREFOOT_DLQ_URL="http://127.0.0.1:1")
    assert (done.code, done.out) == (2, "")
    assert "The dead-letter service at http://127.0.0.1:1 does not answer" in done.err
