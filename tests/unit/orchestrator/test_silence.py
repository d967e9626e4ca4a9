"""When silence counts: a timer that has run out is judged by what has flowed since."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from surefoot.log.port import TopicPartition
from surefoot.orchestrator.silence import Counts, Due, Evidence, Listen, NotBefore, Suspicion, Verdict, Why, judge
from tests.support.corpus import each_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)
GRACE = timedelta(seconds=5)
REPLIES, COMMANDS = TopicPartition("payment.events", 3), TopicPartition("payment.commands", 1)
TOPICS = frozenset({"payment.events"})
DUE = Due(
    saga_id="saga-1",
    entity_id="order-1",
    step="capture",
    direction="do",
    attempt=1,
    kind="timeout",
    after=timedelta(seconds=30),
    now=NOW,
    outbox_status="PUBLISHED",
    published_at=NOW - timedelta(seconds=30),
    reader=("payment", COMMANDS),
)
ALL_READ = Evidence(
    ends={REPLIES: 10, COMMANDS: 4},
    read={REPLIES: 10},
    readers={"payment": {COMMANDS: 4}},
    last_written=100,
    first_unsent=None,
    parked=frozenset(),
)
LISTENING = Suspicion(NOW - timedelta(seconds=1), {REPLIES: 10}, 4, 100)


def verdict(due: Due = DUE, evidence: Evidence = ALL_READ, suspicion: Suspicion | None = LISTENING) -> Verdict:
    return judge(due, evidence, suspicion, GRACE, TOPICS)


def test_a_rest_is_over_when_it_is_over() -> None:
    assert verdict(replace(DUE, kind="rest"), suspicion=None) == Counts()


def test_the_ends_of_everything_are_noted_first() -> None:
    assert verdict(suspicion=None) == Listen(Suspicion(NOW, {REPLIES: 10}, 4, 100), timedelta(milliseconds=200), None)


def test_silence_counts_when_everything_has_flowed_past_the_ends() -> None:
    assert verdict() == Counts()


def test_what_comes_behind_the_ends_does_not_matter() -> None:
    busy = replace(ALL_READ, ends={REPLIES: 900, COMMANDS: 700}, first_unsent=101)
    assert verdict(evidence=busy) == Counts()


@pytest.mark.parametrize("status", ["PENDING", "HELD", "FAILED"])
def test_the_clock_of_a_command_that_is_not_published_has_not_started(status: str) -> None:
    unpublished = replace(DUE, outbox_status=status, published_at=None)
    assert verdict(unpublished) == NotBefore(NOW + timedelta(seconds=5), "unpublished")


def test_the_clock_starts_when_the_command_was_published() -> None:
    later = replace(DUE, published_at=NOW - timedelta(seconds=10))
    assert verdict(later) == NotBefore(NOW + timedelta(seconds=20), "unpublished")


@each_of(
    ("evidence", "why"),
    [
        (replace(ALL_READ, read={REPLIES: 9}), "replies_lag"),
        (replace(ALL_READ, read={}), "replies_lag"),
        (replace(ALL_READ, readers={"payment": {COMMANDS: 3}}), "unread"),
        (replace(ALL_READ, readers={}), "unread"),
        (replace(ALL_READ, first_unsent=100), "relay_lags"),
        (replace(ALL_READ, parked=frozenset({"saga-1"})), "parked"),
        (replace(ALL_READ, parked=frozenset({"order-1"})), "parked"),
    ],
)
def test_nothing_is_decided_while_an_answer_may_be_on_its_way(evidence: Evidence, why: Why) -> None:
    found = verdict(evidence=evidence)
    assert found == Listen(replace(LISTENING, checks=1), timedelta(milliseconds=200), why)


def test_what_may_be_about_any_saga_at_a_wait_stops_the_clocks_of_that_wait_alone() -> None:
    waiting = replace(DUE, kind="deadline", saga_type="return", step="pickup", reader=None)
    unread = replace(ALL_READ, parked_waits=frozenset({("return", "pickup")}))
    listening = replace(LISTENING, command=None)
    still = Listen(replace(listening, checks=1), timedelta(milliseconds=200), "parked")
    assert verdict(waiting, unread, listening) == still
    assert verdict(replace(waiting, step="payment"), unread, listening) == Counts()
    assert verdict(replace(waiting, saga_type="order"), unread, listening) == Counts()


def test_it_looks_less_and_less_often() -> None:
    lagging = replace(ALL_READ, read={})
    looks = [verdict(evidence=lagging, suspicion=replace(LISTENING, checks=checks)) for checks in (1, 2, 3, 20)]
    assert [look.after for look in looks if isinstance(look, Listen)] == [
        timedelta(milliseconds=400),
        timedelta(milliseconds=800),
        timedelta(milliseconds=1600),
        timedelta(seconds=5),
    ]


def test_a_step_may_say_that_unread_counts() -> None:
    nobody_reads = replace(ALL_READ, readers={})
    assert verdict(replace(DUE, reader=None), nobody_reads) == Counts()


def test_the_clock_starts_anew_after_an_outage() -> None:
    long_ago = replace(LISTENING, since=NOW - timedelta(seconds=6))
    assert verdict(suspicion=long_ago) == NotBefore(NOW + timedelta(seconds=30), "replies_lag")


def test_a_deadline_of_days_is_listened_for_again_instead() -> None:
    long_ago = replace(LISTENING, since=NOW - timedelta(minutes=6))
    wait = replace(DUE, kind="deadline", after=timedelta(days=5), outbox_status=None, published_at=None, reader=None)
    found = verdict(wait, suspicion=long_ago)
    assert found == Listen(Suspicion(NOW, {REPLIES: 10}, None, 100), timedelta(milliseconds=200), None)
