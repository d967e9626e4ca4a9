"""What the API makes of a provider's answers, and of none."""

import pytest

from services.payment.api.asking import NeverLeft, Rejected, asked
from services.payment.gateway import Charged, NotReached, RequestRefused
from surefoot.consumer import DependencyDown, Transient
from surefoot.idempotency.errors import ProviderBusy


async def says(answer: Charged | Exception) -> Charged:
    if isinstance(answer, Exception):
        raise answer
    return answer


def refused(status: int, code: str | None) -> RequestRefused:
    return RequestRefused("No.", status=status, code=code)


async def test_an_answer_is_passed_on() -> None:
    assert await asked(says(Charged("txn-1"))) == Charged("txn-1")


@pytest.mark.parametrize(("status", "code"), [(422, "invalid"), (409, "exceeds_captured"), (404, "unknown_charge")])
async def test_what_the_provider_refuses_for_good_is_an_answer(status: int, code: str) -> None:
    assert await asked(says(refused(status, code))) == Rejected(code)


async def test_a_request_that_never_left_is_an_answer_of_its_own() -> None:
    assert await asked(says(NotReached("nobody there"))) == NeverLeft()


@pytest.mark.parametrize("code", [None, "in_flight", "whatever"])
async def test_a_conflict_at_the_provider_means_that_it_works_on_it(code: str | None) -> None:
    with pytest.raises(ProviderBusy, match="No"):
        await asked(says(refused(409, code)))


@pytest.mark.parametrize(
    "error",
    [Transient("no answer"), DependencyDown("503"), refused(404, None), refused(422, "key_reused"), refused(408, None)],
)
async def test_all_that_says_nothing_about_the_money_is_raised_on(error: Exception) -> None:
    with pytest.raises(type(error)):
        await asked(says(error))
