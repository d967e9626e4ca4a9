"""Who is believed, and who is not: signature, age, and headers that are not as they should be."""

from datetime import timedelta
from typing import Any

import pytest

from surefoot.errors import ConfigurationError
from surefoot.webhooks import Reason, Rejected, Scheme, Verified, keys_of, sign, verify
from tests.support.corpus import each_of
from tests.support.webhook_signatures import AT, BODY, KEYS, MOMENT, SECRETS, lines

SCHEMES: list[Scheme] = ["standard", "stripe"]
SECOND = timedelta(seconds=1)
GOOD = sign("standard", BODY, KEYS["standard"][:1], message_id="msg_1", at=AT)
GOOD_STRIPE = sign("stripe", BODY, KEYS["stripe"][:1], message_id="msg_1", at=AT)["Stripe-Signature"]
V1 = GOOD["webhook-signature"]
HEX = GOOD_STRIPE.partition("v1=")[2]


def reason(found: Verified | Rejected) -> Reason | None:
    if isinstance(found, Verified):
        return None
    assert found.sentence.endswith(".")
    return found.reason


def verified(scheme: Scheme, headers: Any, **changed: Any) -> Reason | None:
    given = {"body": BODY, "secrets": KEYS[scheme], "now": MOMENT, **changed}
    return reason(verify(scheme, lines(headers) if isinstance(headers, dict) else headers, **given))


@pytest.mark.parametrize("scheme", SCHEMES)
@each_of(
    ("after", "expected"),
    [
        (timedelta(0), None),
        (timedelta(minutes=5), None),
        (timedelta(minutes=5) + SECOND, "too_old"),
        (timedelta(days=365), "too_old"),
        (-timedelta(minutes=5), None),
        (-timedelta(minutes=5) - SECOND, "too_new"),
        (-timedelta(days=365), "too_new"),
    ],
)
def test_a_webhook_is_good_for_five_minutes_both_ways(scheme: Scheme, after: timedelta, expected: Reason) -> None:
    headers = sign(scheme, BODY, KEYS[scheme], message_id="msg_1", at=AT)
    assert verified(scheme, headers, now=MOMENT + after) == expected


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_age_limit_can_be_another_one(scheme: Scheme) -> None:
    headers = sign(scheme, BODY, KEYS[scheme], message_id="msg_1", at=AT)
    assert verified(scheme, headers, now=MOMENT + 2 * SECOND, tolerance=SECOND) == "too_old"


@pytest.mark.parametrize("scheme", SCHEMES)
def test_while_a_secret_changes_the_old_the_new_and_both_are_good(scheme: Scheme) -> None:
    old, new = KEYS[scheme][:1], KEYS[scheme][1:]
    for signed_with in (old, new, old + new):
        headers = sign(scheme, BODY, signed_with, message_id="msg_1", at=AT)
        assert verified(scheme, headers, secrets=old + new) is None
    assert verified(scheme, sign(scheme, BODY, old, message_id="msg_1", at=AT), secrets=new) == "wrong_signature"


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_changed_body_another_time_and_no_secret_are_wrong(scheme: Scheme) -> None:
    headers = sign(scheme, BODY, KEYS[scheme], message_id="msg_1", at=AT)
    assert verified(scheme, headers, body=BODY + b" ") == "wrong_signature"
    assert verified(scheme, headers, body=b"") == "wrong_signature"
    assert verified(scheme, headers, secrets=()) == "wrong_signature"
    moved = {name: value.replace(str(AT), str(AT + 1)) for name, value in headers.items()}
    assert verified(scheme, moved) == "wrong_signature"


def test_the_messages_id_is_signed_as_well() -> None:
    assert verified("standard", GOOD | {"webhook-id": "msg_2"}) == "wrong_signature"


def test_an_old_webhook_with_a_wrong_signature_is_called_wrong_and_not_old() -> None:
    assert verified("standard", GOOD, now=MOMENT + timedelta(days=1), secrets=()) == "wrong_signature"


def test_svixs_names_do_as_well_but_not_a_mixture() -> None:
    svix = {name.replace("webhook", "Svix"): value for name, value in GOOD.items()}
    assert verified("standard", svix) is None
    assert verified("standard", svix | GOOD) is None
    mixed = {"svix-id": "msg_1", "webhook-timestamp": str(AT), "webhook-signature": V1}
    assert verified("standard", mixed) == "missing"


def test_versions_and_parts_that_we_do_not_know_are_left_alone() -> None:
    assert verified("standard", GOOD | {"webhook-signature": f"v1a,AAAA v2,{V1[3:]} nonsense {V1}"}) is None
    assert verified("standard", GOOD | {"webhook-signature": f"v2,{V1[3:]}"}) == "malformed"
    assert verified("stripe", {"Stripe-Signature": f"t={AT},v0=123,v1={'0' * 64},v1={HEX},v2=,=x"}) is None
    assert verified("stripe", {"Stripe-Signature": f"t={AT},v0={HEX}"}) == "malformed"


@pytest.mark.parametrize("name", ["webhook-id", "webhook-timestamp", "webhook-signature"])
def test_a_header_that_is_missing_empty_or_there_twice_is_refused(name: str) -> None:
    assert verified("standard", {key: value for key, value in GOOD.items() if key != name}) == "missing"
    assert verified("standard", GOOD | {name: "  "}) == "missing"
    assert verified("standard", [*lines(GOOD), *lines({name: GOOD[name]})]) == "malformed"
    assert verified("standard", GOOD | {name: "x" * 5000}) == "malformed"
    assert verified("standard", GOOD | {name: GOOD[name] + "\xe9"}) == "malformed"
    assert verified("standard", GOOD | {name: GOOD[name] + "\x00"}) == "malformed"


NO_TIMES = ["-1", "+1", "1.5", "1e9", "0x10", "1_000", "01", "NaN", "inf", "9" * 12, "9" * 400, "now", "1 2"]


@each_of("time", NO_TIMES)
def test_a_time_that_is_no_whole_number_of_seconds_is_refused(time: str) -> None:
    assert verified("standard", GOOD | {"webhook-timestamp": time}) == "malformed"
    assert verified("stripe", {"Stripe-Signature": f"t={time},v1={HEX}"}) == "malformed"


@each_of(
    "signature",
    ["v1", "v1,", "v1,not Base64!", "v1,====", "v1,AAAA", f"v1,{V1[3:-1]}", f"v1,{V1[3:]}AAAA", f"v1,,{V1[3:]}", ","],
)
def test_a_signature_that_can_be_none_is_refused(signature: str) -> None:
    assert verified("standard", GOOD | {"webhook-signature": signature}) == "malformed"


@pytest.mark.parametrize("id_", ["msg.1", "msg 1", "m" * 257])
def test_an_id_that_would_let_what_was_signed_be_cut_up_otherwise_is_refused(id_: str) -> None:
    assert verified("standard", GOOD | {"webhook-id": id_}) == "malformed"


@each_of(
    "header",
    [
        "nonsense",
        f"v1={HEX}",
        f"t={AT}",
        f"t={AT},t={AT},v1={HEX}",
        f"t={AT},v1={HEX[:-1]}",
        f"t={AT},v1={HEX.upper()}",
        f"t={AT},v1={HEX}z",
        f"t={AT},v1={' '.join(HEX[i : i + 2] for i in range(0, 64, 2))}",
        f"t={AT},v1={HEX},",
        f"t={AT}" + f",v1={HEX}" * 33,
        f"t={AT},v1={HEX}\xff",
    ],
)
def test_a_stripe_header_that_is_none_is_refused(header: str) -> None:
    assert verified("stripe", {"Stripe-Signature": header}) == "malformed"


def test_a_stripe_header_that_is_missing_or_there_twice_is_refused() -> None:
    assert verified("stripe", {}) == "missing"
    assert verified("stripe", lines({"Stripe-Signature": GOOD_STRIPE}) * 2) == "malformed"


def test_more_signatures_than_anybody_sends_are_refused_before_they_are_compared() -> None:
    assert verified("standard", GOOD | {"webhook-signature": " ".join([V1] * 33)}) == "malformed"


def test_a_rejection_quotes_nothing_of_what_was_sent() -> None:
    for headers in (GOOD | {"webhook-timestamp": "SECRET"}, GOOD | {"webhook-signature": "SECRET"}):
        found = verify("standard", lines(headers), BODY, KEYS["standard"], MOMENT)
        assert isinstance(found, Rejected)
        assert "SECRET" not in found.sentence


@pytest.mark.parametrize("scheme", SCHEMES)
def test_secrets_that_are_none_are_refused_without_quoting_them(scheme: Scheme) -> None:
    with pytest.raises(ConfigurationError, match="without a secret"):
        keys_of(scheme, [])
    with pytest.raises(ConfigurationError) as refused:
        keys_of(scheme, [SECRETS[scheme][0], "too-short"])
    assert "too-short" not in str(refused.value)
