"""What the database's errors mean for a move, and which of the reasons are worth another try."""

import pytest
from prometheus_client import REGISTRY
from sqlalchemy.exc import TimeoutError as PoolTimeout

from services.ledger import Contended, Done, Outcome, Refused
from services.ledger.move import Reason, reason_of
from services.ledger.moves import ContentionRetry
from surefoot.events import Money
from tests.support.corpus import each_of


class DatabaseError(Exception):
    def __init__(self, sqlstate: str) -> None:
        super().__init__("the database says no")
        self.sqlstate = sqlstate


@each_of(
    ("sqlstate", "reason"),
    [
        ("40P01", "CONFLICT"),
        ("40001", "CONFLICT"),
        ("55P03", "THROTTLED"),
        ("57014", "THROTTLED"),
        ("53300", "THROTTLED"),
        ("53100", "THROTTLED"),
        ("23514", None),
        ("42P01", None),
        ("08006", None),
    ],
)
def test_the_databases_own_code_says_what_it_was(sqlstate: str, reason: Reason | None) -> None:
    assert reason_of(DatabaseError(sqlstate)) == reason


def test_an_error_that_wraps_the_databases_own_is_the_same() -> None:
    wrapped = RuntimeError("outer")
    wrapped.__cause__ = DatabaseError("40P01")
    assert reason_of(wrapped) == "CONFLICT"


def test_a_pool_without_a_free_connection_is_throttling_and_a_bug_is_nothing() -> None:
    assert reason_of(PoolTimeout("all of them are in use")) == "THROTTLED"
    assert reason_of(TimeoutError("of somebody else")) is None
    assert reason_of(ValueError("a bug")) is None


def test_only_conflicts_and_throttling_are_worth_another_try() -> None:
    reasons: list[Reason] = ["INSUFFICIENT", "CAP_EXCEEDED", "CONFLICT", "THROTTLED"]
    assert [Refused(reason).is_retriable for reason in reasons] == [False, False, True, True]


class Attempts:
    """Fails with these codes, one after the other, then it is done. Remembers the rests between."""

    def __init__(self, *sqlstates: str) -> None:
        self.sqlstates = list(sqlstates)
        self.made = 0
        self.rests: list[float] = []

    async def once(self) -> Outcome:
        self.made += 1
        if self.sqlstates:
            raise DatabaseError(self.sqlstates.pop(0))
        return Done(Money(1, "EUR"))

    async def sleep(self, seconds: float) -> None:
        self.rests.append(seconds)

    def retry(self, chance: float) -> ContentionRetry:
        return ContentionRetry(sleep=self.sleep, chance=lambda: chance)


@pytest.mark.parametrize(
    ("chance", "rests"), [(0.0, [0.05, 0.1, 0.2]), (0.5, [0.075, 0.15, 0.3]), (1, [0.1, 0.2, 0.4])]
)
async def test_it_rests_for_50_ms_doubled_each_time_and_a_jitter_on_top(chance: float, rests: list[float]) -> None:
    attempts = Attempts("40P01", "55P03", "40001")
    assert await attempts.retry(chance).insist(attempts.once) == Done(Money(1, "EUR"))
    assert attempts.rests == pytest.approx(rests)


async def test_after_three_more_tries_it_is_given_up_and_every_one_is_counted() -> None:
    before = counted("CONFLICT")
    attempts = Attempts(*["40P01"] * 5)
    assert await attempts.retry(0).insist(attempts.once) == Refused("CONFLICT")
    assert (attempts.made, len(attempts.rests)) == (4, 3)
    assert counted("CONFLICT") - before == 4


async def test_an_answer_is_not_tried_again() -> None:
    attempts = Attempts()

    async def once() -> Outcome:
        attempts.made += 1
        return Refused("INSUFFICIENT")

    assert await attempts.retry(0).insist(once) == Refused("INSUFFICIENT")
    assert (attempts.made, attempts.rests) == (1, [])


async def test_what_was_counted_where_it_lost_is_not_counted_twice() -> None:
    before = counted("CONFLICT")

    async def once() -> Outcome:
        raise Contended("CONFLICT")

    assert await Attempts().retry(0).insist(once) == Refused("CONFLICT")
    assert counted("CONFLICT") == before


async def test_a_bug_is_raised_at_once() -> None:
    attempts = Attempts("22012")
    with pytest.raises(DatabaseError):
        await attempts.retry(0).insist(attempts.once)
    assert attempts.rests == []


def counted(reason: Reason) -> float:
    return REGISTRY.get_sample_value("surefoot_ledger_refused_total", {"reason": reason}) or 0
