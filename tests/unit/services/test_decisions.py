"""What the services decide without a database: verdicts, carriers, totals, what may come back."""

from collections import Counter

import pytest

from consumers.warehouse import Shares, verdict_of
from schemas.parts import Address, Line, StockLine
from services.checkout import sessions
from services.checkout.sessions import WishRefused, total_of
from services.returns.requests import Granted, NotGranted, Pieces, judged
from services.shipping import carrier_to, refusal_of
from services.warehouse.stock import merged
from surefoot.consumer import Permanent
from surefoot.events import Money


def address(country: str) -> Address:
    return Address(name="A", street="1 Main Street", postal_code="1", city="Springfield", country=country)


def line(sku: str, quantity: int, cents: int, currency: str = "EUR") -> Line:
    return Line(sku=sku, quantity=quantity, unit_price=Money.minor(cents, currency))


def goods(sku: str, quantity: int) -> StockLine:
    return StockLine(sku=sku, quantity=quantity)


def test_a_return_gets_the_same_verdict_every_time_and_many_get_all_three() -> None:
    shares = Shares(damaged=20, rejected=10)
    verdicts = {f"r-{number}": verdict_of(f"r-{number}", shares) for number in range(1000)}
    assert all(verdict_of(return_id, shares) == verdict for return_id, verdict in verdicts.items())
    found = Counter(verdicts.values())
    assert 150 < found["DAMAGED"] < 250
    assert 60 < found["REJECTED"] < 140
    assert found["APPROVED"] == 1000 - found["DAMAGED"] - found["REJECTED"]


@pytest.mark.parametrize(
    ("shares", "verdict"),
    [(Shares(100, 0), "DAMAGED"), (Shares(0, 100), "REJECTED"), (Shares(0, 0), "APPROVED")],
)
def test_a_share_of_a_hundred_is_everything(shares: Shares, verdict: str) -> None:
    assert {verdict_of(f"r-{number}", shares) for number in range(200)} == {verdict}


def test_parcels_go_everywhere_and_are_fetched_where_a_carrier_goes() -> None:
    assert [carrier_to(address(country)) for country in ("DE", "US", "AQ")] == ["post", "air-freight", "air-freight"]
    assert [refusal_of(address(country)) for country in ("DE", "US", "AQ")] == [None, None, "address_not_served"]


def test_a_total_is_the_sum_of_its_lines() -> None:
    assert total_of([line("table", 2, 1000), line("lamp", 3, 5)]) == Money.minor(2015, "EUR")


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([line("table", 1, 1000), line("lamp", 1, 5, "USD")], "EUR, USD"),
        ([line("table", 1, -1)], "below zero"),
        ([line("table", 2, 0)], "cost nothing"),
        ([], "none"),
    ],
)
def test_a_wish_that_has_no_total_is_refused_with_a_sentence(lines: list[Line], words: str) -> None:
    with pytest.raises(WishRefused, match=words):
        total_of(lines)


def test_a_gift_beside_what_is_paid_for_has_a_total() -> None:
    assert total_of([line("table", 1, 1000), line("ribbon", 1, 0)]) == Money.minor(1000, "EUR")


@pytest.mark.parametrize(
    ("customer_id", "lines", "words"),
    [
        ("c-1", [line("table", 9_999, 1), line("table", 2, 1)], "10001 of table"),
        ("c\n1", [line("table", 1, 1)], "customer"),
        ("c\u00851", [line("table", 1, 1)], "customer"),
        ("c-1", [line("ta\tble", 1, 1)], "article"),
    ],
)
def test_a_wish_that_the_other_services_could_not_handle_is_refused_with_a_sentence(
    customer_id: str, lines: list[Line], words: str
) -> None:
    with pytest.raises(WishRefused, match=words):
        sessions.check_wish(customer_id, lines)


def test_as_many_as_the_warehouse_handles_at_once_may_be_wished_for() -> None:
    sessions.check_wish("Zoë Müller", [line("table", 9_999, 1), line("table", 1, 1), line("lamp", 10_000, 1)])


def test_lines_of_one_article_are_one_line_and_articles_are_sorted() -> None:
    assert merged([goods("b", 1), goods("a", 2), goods("b", 3)]) == (goods("a", 2), goods("b", 4))


def test_lines_of_one_article_that_are_too_many_together_are_refused_for_good() -> None:
    with pytest.raises(Permanent, match="10000"):
        merged([goods("a", 9_999), goods("a", 2)])


def test_what_was_bought_can_come_back_for_what_it_cost() -> None:
    bought = [line("table", 2, 1000), line("lamp", 1, 500)]
    assert judged(bought, {}, [goods("table", 1), goods("lamp", 1)]) == Granted(
        (goods("lamp", 1), goods("table", 1)),
        Money.minor(1500, "EUR"),
        (Pieces("lamp", 500, 1), Pieces("table", 1000, 1)),
    )


def test_nothing_comes_back_twice() -> None:
    bought = [line("table", 2, 1000)]
    in_use = {("table", 1000): 1}
    assert isinstance(judged(bought, in_use, [goods("table", 1)]), Granted)
    refused = judged(bought, in_use, [goods("table", 1), goods("table", 1)])
    assert isinstance(refused, NotGranted)
    assert refused.reason == "too_many"
    assert "2 were bought, and 1 of them" in refused.sentence


def test_what_was_never_bought_cannot_come_back() -> None:
    refused = judged([line("table", 2, 1000)], {}, [goods("lamp", 1)])
    assert isinstance(refused, NotGranted)


TWO_PRICES = [line("table", 1, 800), line("table", 2, 1000)]


def granted(in_use: Counter[tuple[str, int]], quantity: int) -> Granted:
    verdict = judged(TWO_PRICES, in_use, [goods("table", quantity)])
    assert isinstance(verdict, Granted)
    return verdict


def given_out(granted: Granted) -> Counter[tuple[str, int]]:
    return Counter({(pieces.sku, pieces.price): pieces.quantity for pieces in granted.pieces})


def test_of_an_article_bought_at_two_prices_all_returns_together_give_back_what_was_paid() -> None:
    in_use: Counter[tuple[str, int]] = Counter()
    amounts = []
    for _ in range(3):
        verdict = granted(in_use, 1)
        in_use += given_out(verdict)
        amounts.append(verdict.amount.minor_units)
    assert amounts == [1000, 1000, 800]


def test_the_dearest_pieces_of_an_aborted_return_are_given_out_again() -> None:
    first = granted(Counter(), 1)
    second = granted(given_out(first), 2)
    assert [first.amount.minor_units, second.amount.minor_units] == [1000, 1800]
    assert granted(given_out(second), 1).amount.minor_units == 1000  # the first was aborted, the second was not
