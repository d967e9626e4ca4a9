"""What news makes of a charge: a step, nothing because it is late, or a contradiction."""

import pytest

from services.payment.charge_news import (
    Contradicted,
    Known,
    Late,
    Moved,
    News,
    NewStatus,
    Status,
    is_step,
    told,
    unmoved,
)
from surefoot.events import Money
from tests.support.corpus import each_of

EUR_20 = Money.minor(2000, "EUR")
STEP, LATE, NO = "step", "late", "contradicted"
# By hand, row by row: where the charge is, and what AUTHORIZED, CAPTURED, REFUNDED, DECLINED and VOIDED make of it.
TABLE: dict[Status, tuple[str, str, str, str, str]] = {
    "PENDING": (STEP, STEP, STEP, STEP, STEP),
    "AUTHORIZED": (LATE, STEP, STEP, STEP, STEP),
    "CAPTURED": (LATE, LATE, STEP, NO, NO),
    "REFUNDED": (LATE, LATE, LATE, NO, NO),
    "DECLINED": (LATE, NO, NO, LATE, LATE),
    "VOIDED": (LATE, NO, NO, LATE, LATE),
}
NEWS: tuple[NewStatus, ...] = ("AUTHORIZED", "CAPTURED", "REFUNDED", "DECLINED", "VOIDED")


def charge(status: Status = "PENDING", *, refunded: int = 0, txn: str | None = "txn-1") -> Known:
    return Known("ch-1", "acme", EUR_20, Money.minor(refunded, "EUR"), status, "provider", txn, "why")


@each_of("status", TABLE)
def test_states_only_move_forward(status: Status) -> None:
    known = charge(status, refunded=2000 if status == "REFUNDED" else 0)
    for to, expected in zip(NEWS, TABLE[status], strict=True):
        news = News(to, "txn-1", EUR_20)
        assert is_step(known, news) == (expected == STEP), to
        if expected != STEP:
            assert isinstance(unmoved(known, news), Late if expected == LATE else Contradicted), to


@pytest.mark.parametrize(("total", "step"), [(499, False), (500, False), (501, True), (2000, True)])
def test_a_refund_is_a_step_if_more_has_been_given_back_than_was_known(total: int, step: bool) -> None:
    assert is_step(charge("CAPTURED", refunded=500), News("REFUNDED", amount=Money.minor(total, "EUR"))) == step


@pytest.mark.parametrize(
    "news",
    [
        News("CAPTURED", "txn-2"),
        News("CAPTURED", "txn-1", Money.minor(1999, "EUR")),
        News("CAPTURED", "txn-1", Money.minor(2000, "USD")),
        News("REFUNDED", "txn-1", Money.minor(2001, "EUR")),
        News("REFUNDED", "txn-1", Money.minor(1, "USD")),
    ],
)
def test_another_transaction_amount_or_currency_is_a_contradiction_in_every_state(news: News) -> None:
    for status in TABLE:
        assert isinstance(unmoved(charge(status), news), Contradicted)


@pytest.mark.parametrize(
    ("to", "type_", "more"),
    [
        ("AUTHORIZED", "ChargeAuthorized", {}),
        ("CAPTURED", "ChargeCaptured", {}),
        ("DECLINED", "ChargeDeclined", {"reason": "why"}),
        ("VOIDED", "ChargeVoided", {"reason": "why"}),
        ("REFUNDED", "ChargeRefunded", {"charged": EUR_20, "amount": Money.minor(500, "EUR")}),
    ],
)
def test_each_step_is_told_as_an_event(to: NewStatus, type_: str, more: dict[str, object]) -> None:
    event = told(Moved(charge("CAPTURED", refunded=500), News(to)))
    said = {name: getattr(event, name) for name in type(event).model_fields}
    common = {"charge_id": "ch-1", "tenant": "acme", "amount": EUR_20, "gateway": "provider"}
    assert type(event).__name__ == type_
    assert said == {**common, "gateway_txn_id": "txn-1", **more}
