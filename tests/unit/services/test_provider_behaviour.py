"""Which requests the provider misbehaves towards: always the same ones, and never an order in two ways."""

import pytest

from services.provider.behaviour import EVERY_OPERATION, OfKey, OfOrder, OfShare, Rule, Shares, applying, place_of
from surefoot.errors import ConfigurationError

ORDERS = [f"order-{number}" for number in range(20_000)]


def test_a_rule_for_an_order_applies_to_this_order_alone() -> None:
    rule = Rule("r", OfOrder("o-1"), "decline")
    assert rule.applies("charge", "o-1", "k")
    assert not rule.applies("charge", "o-2", "k")
    assert not rule.applies("charge", None, "k")


def test_a_rule_for_a_key_applies_whatever_the_order() -> None:
    rule = Rule("r", OfKey("k-1"), "late")
    assert rule.applies("charge", "o-1", "k-1")
    assert rule.applies("charge", None, "k-1")
    assert not rule.applies("charge", "o-1", "k-2")


def test_a_rule_applies_to_its_operations_alone() -> None:
    rule = Rule("r", OfOrder("o-1"), "error_before", ("void",))
    assert [rule.applies(operation, "o-1", "k") for operation in EVERY_OPERATION] == [False, True, False]


def test_a_share_is_the_same_orders_every_time() -> None:
    # By hand: sha256("share:order-1") begins with 64 bits that are this part of all numbers.
    assert place_of("order-1") == pytest.approx(0.58898268, abs=1e-8)
    assert [place_of(order) for order in ORDERS[:50]] == [place_of(order) for order in ORDERS[:50]]
    assert all(0 <= place_of(order) < 1 for order in ORDERS)


def test_shares_are_about_as_large_as_asked_for_and_do_not_overlap() -> None:
    rules = Shares(decline=0.05, timeout_after=0.02, late=0.02, error=0.04).rules()
    found = {rule.behaviour: 0 for rule in rules}
    for order in ORDERS:
        applies = applying(rules, "charge", order, "k")
        assert len(applies) <= 1
        for rule in applies:
            found[rule.behaviour] += 1
    expected = {"decline": 1000, "timeout_after": 400, "late": 400, "error_before": 400, "error_after": 400}
    assert found.keys() == expected.keys()
    for behaviour, count in found.items():
        assert count == pytest.approx(expected[behaviour], rel=0.15)


def test_declines_are_for_charges_and_other_trouble_for_everything() -> None:
    rules = Shares(decline=0.5, late=0.5).rules()
    assert [rule.operations for rule in rules] == [("charge",), ("charge", "void", "refund")]


def test_no_share_is_no_rule() -> None:
    assert Shares().rules() == []


@pytest.mark.parametrize("shares", [Shares(decline=0.6, error=0.5), Shares(late=-0.1)])
def test_shares_that_cannot_be_are_refused(shares: Shares) -> None:
    with pytest.raises(ConfigurationError, match="add up to 1"):
        shares.rules()


def test_a_decline_has_the_reason_it_was_given_or_one_of_the_order() -> None:
    assert Rule("r", OfShare(0, 1), "decline", reason="suspected_fraud").decline_of("o-1") == "suspected_fraud"
    rule = Rule("r", OfShare(0, 1), "decline")
    assert rule.decline_of("o-1") == rule.decline_of("o-1")
    assert {rule.decline_of(order) for order in ORDERS[:100]} == {
        "declined",
        "insufficient_funds",
        "expired_card",
        "suspected_fraud",
    }
