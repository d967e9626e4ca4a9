"""What the API makes of a provider's answers, and of none."""

from typing import Any

import pytest

from services.payment.api.asking import Captured, GivenBack, capture, give_back
from services.payment.gateway import Barred, Charged, Declined, NotReached, Refunded, RequestRefused, Voided
from surefoot.consumer import DependencyDown, Transient
from surefoot.events import Money
from surefoot.idempotency.values import ProviderBusy

EUR_20 = Money.minor(2000, "EUR")


class Says:
    """A gateway that answers what it is told to, and keeps what it was asked."""

    name = "says"

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.asked: list[tuple[Any, ...]] = []

    async def charge(self, key: str, order_id: str, amount: Money) -> Charged | Declined | Barred:
        return self._say("charge", key, order_id, amount)  # type: ignore[no-any-return]

    async def void(self, key: str) -> Voided:
        return self._say("void", key)  # type: ignore[no-any-return]

    async def refund(self, refund_request_id: str, charge_id: str, amount: Money) -> Refunded:
        return self._say("refund", refund_request_id, charge_id, amount)  # type: ignore[no-any-return]

    def _say(self, *asked: Any) -> Any:
        self.asked.append(asked)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def refused(status: int, code: str | None) -> RequestRefused:
    return RequestRefused("No.", status=status, code=code)


async def captured(answer: Any, *, sure: bool = True) -> Captured:
    return await capture(Says(answer), "ch_1", EUR_20, sure=sure, key="k:capture")


async def given_back(answer: Any, *, sure: bool = True) -> GivenBack:
    return await give_back(Says(answer), "re_1", "txn-1", EUR_20, sure=sure, key="k:refund")


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (Charged("txn-1"), Captured("charged", "txn-1")),
        (Declined("expired_card"), Captured("declined", reason="expired_card")),
        (Barred(), Captured("barred", reason="voided")),
        (refused(422, "invalid"), Captured("rejected", reason="invalid")),
    ],
)
async def test_what_the_provider_says_of_a_charge_is_an_answer(answer: Any, expected: Captured) -> None:
    assert await captured(answer) == expected


async def test_the_charge_is_asked_for_under_the_key_and_in_its_own_name() -> None:
    gateway = Says(Charged("txn-1"))
    await capture(gateway, "ch_1", EUR_20, sure=True, key="k:capture")
    assert gateway.asked == [("charge", "k:capture", "ch_1", EUR_20)]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (Refunded("re-there"), GivenBack("refunded", "re-there")),
        (refused(409, "exceeds_captured"), GivenBack("rejected", reason="exceeds_captured")),
        (refused(404, "unknown_charge"), GivenBack("rejected", reason="unknown_charge")),
    ],
)
async def test_what_the_provider_says_of_a_refund_is_an_answer(answer: Any, expected: GivenBack) -> None:
    assert await given_back(answer) == expected


async def test_a_refund_is_asked_for_in_its_own_name() -> None:
    gateway = Says(Refunded("re-there"))
    await give_back(gateway, "re_1", "txn-1", EUR_20, sure=True, key="k:refund")
    assert gateway.asked == [("refund", "re_1", "txn-1", EUR_20)]


async def test_a_request_that_never_left_is_an_answer_if_no_earlier_one_can_have() -> None:
    assert (await captured(NotReached("nobody there"))).outcome == "never_left"
    assert (await given_back(NotReached("nobody there"))).outcome == "never_left"


async def test_a_request_that_never_left_says_nothing_of_an_earlier_one() -> None:
    with pytest.raises(NotReached):
        await captured(NotReached("nobody there"), sure=False)
    with pytest.raises(NotReached):
        await given_back(NotReached("nobody there"), sure=False)


@pytest.mark.parametrize("code", [None, "in_flight", "whatever"])
async def test_a_conflict_at_the_provider_means_that_it_works_on_it(code: str | None) -> None:
    with pytest.raises(ProviderBusy, match="No"):
        await captured(refused(409, code))
    with pytest.raises(ProviderBusy, match="No"):
        await given_back(refused(409, code))


@pytest.mark.parametrize(
    "error",
    [Transient("no answer"), DependencyDown("503"), refused(404, None), refused(422, "key_reused"), refused(408, None)],
)
async def test_all_that_says_nothing_about_the_money_is_raised_on(error: Exception) -> None:
    with pytest.raises(type(error)):
        await captured(error)
    with pytest.raises(type(error)):
        await given_back(error)
