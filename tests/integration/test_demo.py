"""`surefoot demo`, as a newcomer would run it."""

import os
import re
import subprocess
import sys

import pytest

pytestmark = pytest.mark.drill  # .ci/run runs the demo itself, which fails if its own checks do


def surefoot(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "surefoot", *arguments],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env={**os.environ, **environment},
    )


@pytest.fixture(scope="module")
def done() -> subprocess.CompletedProcess[str]:
    """All four acts, on a smaller scale, once for all tests."""
    return surefoot("demo", "--orders", "60", "--sagas", "60", COLUMNS="200")


def test_the_demo_ends_by_itself_and_proves_that_nothing_was_lost(done: subprocess.CompletedProcess[str]) -> None:
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"events committed +│ +305 ", done.stdout)
    assert re.search(r"distinct events in the log +│ +305 ", done.stdout)
    assert re.search(r"orders the warehouse set aside +│ +60 ", done.stdout)
    assert re.search(r"orders set aside twice +│ +0 ", done.stdout)
    for nothing in ("lost", "published though rolled back", "keys out of commit order", "keys in two partitions"):
        assert re.search(rf"│ {nothing} +│ +0 ", done.stdout), nothing
    assert "relay-1 killed" in done.stdout
    assert "consumer-2 killed" in done.stdout


def test_the_demo_shows_an_event_that_fails_while_others_pass(done: subprocess.CompletedProcess[str]) -> None:
    assert "order-jammed failed (attempt 1 of 3); its key waits" in done.stdout
    assert re.search(r"order-jammed is dead \(out_of_attempts\).* 1 event waits behind it; [1-9]\d* other", done.stdout)
    assert re.search(r"dead letters +│ +1 ", done.stdout)


def test_the_demo_shows_how_a_bad_deploy_is_mended_and_accounts_for_every_event(
    done: subprocess.CompletedProcess[str],
) -> None:
    shown = done.stdout.partition("Third act")[2].partition("Fourth act")[0]
    assert "102 events are dead after the deploy, 101 wait behind them" in shown
    (group,) = re.findall(r"\n([0-9a-f]{16}) +102 +102 +demo-labels +order.placement_requested .* NoTariff: ", shown)
    assert f"surefoot dlq replay --group {group} --canary 5" in shown
    assert "Of 102, 100 went well and 2 did not." in shown
    counts = dict(re.findall(r"│ +([a-z ]+?) +│ +(\d+) +│", shown))
    assert counts == {
        "distinct events published": "906",
        "of them edited by an operator": "1",
        "processed": "602",
        "ignored": "302",
        "barred": "0",
        "parked": "0",
        "dead": "0",
        "superseded": "1",
        "discarded": "1",
        "together": "906",
        "labels printed": "301",
        "labels printed twice": "0",
    }
    assert "Every event is accounted for" in shown


def test_the_demo_shows_a_charge_that_is_taken_once_however_often_it_is_sent(
    done: subprocess.CompletedProcess[str],
) -> None:
    shown = done.stdout.partition("Fourth act")[2]
    assert "payments was killed (SIGKILL) before it heard of it" in shown
    assert len(set(re.findall(r"│ 201 +│ (ch_[0-9a-f]+)…", shown))) == 2
    for counted in ("different answers to them", "charges at the provider", "lines on the ledger", "events published"):
        assert re.search(rf"│ {counted} +│ 2 ", shown), counted
    assert "each charge was taken once" in shown
