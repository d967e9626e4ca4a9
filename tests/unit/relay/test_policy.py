"""When to try again, when to give up, how long to rest."""

from datetime import timedelta

from surefoot.relay.plan import GiveUp, TryAgain, after_refusal, next_pause
from surefoot.retry import backoff
from tests.support.corpus import each_of

SECOND = timedelta(seconds=1)


@each_of(
    ("attempts_before", "decision"),
    [
        (0, TryAgain(timedelta(seconds=1))),
        (1, TryAgain(timedelta(seconds=2))),
        (2, TryAgain(timedelta(seconds=3))),
        (3, TryAgain(timedelta(seconds=3))),
        (4, GiveUp()),
        (9, GiveUp()),
    ],
)
def test_a_refused_row_is_tried_five_times_with_growing_pauses(
    attempts_before: int, decision: TryAgain | GiveUp
) -> None:
    assert after_refusal(attempts_before, max_attempts=5, retry_min=SECOND, retry_max=3 * SECOND) == decision


def test_backoff_does_not_overflow_after_a_very_long_outage() -> None:
    assert backoff(10_000, shortest=SECOND, longest=timedelta(minutes=1)) == timedelta(minutes=1)


def test_pauses_are_short_while_events_come_and_grow_while_none_do() -> None:
    limits = {"shortest": timedelta(milliseconds=2), "longest": timedelta(milliseconds=10)}
    pause = next_pause(timedelta(milliseconds=10), found=3, **limits)
    assert pause == timedelta(milliseconds=2)
    seen = []
    for _ in range(4):
        pause = next_pause(pause, found=0, **limits)
        seen.append(pause / timedelta(milliseconds=1))
    assert seen == [4, 8, 10, 10]
