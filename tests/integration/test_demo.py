"""What `make demo` shows a newcomer.

`.ci/run` runs the demo once, keeps what it printed and names the file by `SUREFOOT_DEMO_OUTPUT`. Without it, the tests
run the demo themselves.
"""

import os
import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from tests.support.corpus import check_each

pytestmark = pytest.mark.drill
OUTPUT = "SUREFOOT_DEMO_OUTPUT"


def printed() -> str:
    """What all four acts have printed."""
    if file := os.environ.get(OUTPUT):
        return Path(file).read_text()
    done = subprocess.run(
        [sys.executable, "-m", "surefoot", "demo"],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env={**os.environ, "COLUMNS": "200"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_each_act_of_the_demo_shows_what_it_is_for() -> None:
    shown = printed()
    acts = (
        shows_that_nothing_was_lost,
        shows_an_event_that_fails_while_others_pass,
        shows_how_a_bad_deploy_is_mended_and_accounts_for_every_event,
        shows_a_charge_that_is_taken_once_however_often_it_is_sent,
    )
    check_each((act.__name__, partial(act, shown)) for act in acts)


def shows_that_nothing_was_lost(shown: str) -> None:
    assert re.search(r"events committed +│ +3,005 ", shown)
    assert re.search(r"distinct events in the log +│ +3,005 ", shown)
    assert re.search(r"orders the warehouse set aside +│ +600 ", shown)
    assert re.search(r"orders set aside twice +│ +0 ", shown)
    for nothing in ("lost", "published though rolled back", "keys out of commit order", "keys in two partitions"):
        assert re.search(rf"│ {nothing} +│ +0 ", shown), nothing
    assert "relay-1 killed" in shown
    assert "consumer-2 killed" in shown


def shows_an_event_that_fails_while_others_pass(shown: str) -> None:
    assert "order-jammed failed (attempt 1 of 3); its key waits" in shown
    assert re.search(r"order-jammed is dead \(out_of_attempts\).* 1 event waits behind it; [1-9]\d* other", shown)
    assert re.search(r"dead letters +│ +1 ", shown)


def shows_how_a_bad_deploy_is_mended_and_accounts_for_every_event(shown: str) -> None:
    act = shown.partition("Third act")[2].partition("Fourth act")[0]
    assert "102 events are dead after the deploy, 101 wait behind them" in act
    (group,) = re.findall(r"\n([0-9a-f]{16}) +102 +102 +demo-labels +order.placement_requested .* NoTariff: ", act)
    assert f"surefoot dlq replay --group {group} --canary 5" in act
    assert "Of 102, 100 went well and 2 did not." in act
    counts = dict(re.findall(r"│ +([a-z ]+?) +│ +(\d+) +│", act))
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
    assert "Every event is accounted for" in act


def shows_a_charge_that_is_taken_once_however_often_it_is_sent(shown: str) -> None:
    act = shown.partition("Fourth act")[2]
    assert "payments was killed (SIGKILL) before it heard of it" in act
    assert len(set(re.findall(r"│ 201 +│ (ch_[0-9a-f]+)…", act))) == 2
    for counted in ("different answers to them", "charges at the provider", "lines on the ledger", "events published"):
        assert re.search(rf"│ {counted} +│ 2 ", act), counted
    assert "each charge was taken once" in act
