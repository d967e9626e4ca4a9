"""Fingerprints: frozen ones, what does not matter to them, and that everything else does."""

import json
import time
from decimal import Decimal, InvalidOperation
from itertools import combinations_with_replacement
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as some

from surefoot.events import Money
from surefoot.events.money import InvalidMoney
from surefoot.idempotency.http.fingerprint import DEEPEST, VERSION, Fingerprint, fingerprint, key_hash

steady = settings(derandomize=True)
CHARGE = b'{"amount": "19.99", "currency": "EUR", "source": "tok_visa"}'
PARTS = (
    b"--%b\r\n"
    b'Content-Disposition: form-data; name="note"\r\n\r\n'
    b"hello\r\n"
    b"--%b\r\n"
    b'Content-Disposition: form-data; name="file"; filename="a.txt"\r\nContent-Type: text/plain\r\n\r\n'
    b"line\r\n\r\n"
    b"--%b--\r\n"
)
FORM = PARTS % (b"x", b"x", b"x")


def of(
    body: bytes,
    *,
    method: str = "POST",
    path: str = "/v1/charges",
    query: str = "",
    tenant: str = "acme",
    content_type: str | None = "application/json",
) -> Fingerprint:
    return fingerprint(method=method, path=path, query=query, tenant=tenant, content_type=content_type, body=body)


def form(body: bytes, boundary: str) -> Fingerprint:
    return of(body, content_type=f"multipart/form-data; boundary={boundary}")


# Version 1, computed apart from the code, by the layout that its docstrings state. They are never changed: stored keys
# are compared with them. A new way of taking fingerprints is a new version.
GOLDEN = [
    ("33411b622e71dedbb1fba55887a2b65bd1a8fdc17c93c3ce19c2b9c7fd244163",
     of(b"", method="GET", path="/", tenant="", content_type=None)),
    ("b0608c8745d512aea3495b0e3da0a154ae104672a7f72ed5eab3b578e5d81cde", of(CHARGE)),
    ("9f10f941bbeb077d7dafcafcb3b2ba26a743b5205d15b2a473775696e99e38f2", of(CHARGE, query="expand=customer")),
    ("5a1407f3f0cd5d6e3ba9b057e4631dba14a44436362a04fac055cf1d037cb403", of(CHARGE, tenant="other")),
    ("95136b26c5f5de669497fb5abdd72003b832465309da228f9307b0bd96f7a430", of(b'{"amount":1999,"currency":"JPY"}')),
    ("97b25535cd68d4bcd13dcb205b538c506204d9b5de332f083fdf5b861c7c70e0", of(b'{"amount":1.999,"currency":"BHD"}')),
    ("7ef46e24c341940458b9c0cf9b3ff7d69c4f2db99f74e5d15d69a09247823eb4",
     of(b"[0, -0.0, 100, 100.0, 1e2, 0.1, -1.50, 1e999999999, 123456789012345678, 1234567890123456789, 1e18]")),
    ("f08d301b0b01251e8f7de2f9c91014e9292d5ca806c234ac23915b882431fbdd",
     of('{"yes": true, "name": "Müller \U0001f9b6 \\"\\/\\\\\\n", "nothing": null, "no": false}'.encode())),
    ("38af1149797d27228127e7ee28f32dc34306f3bcc4a686240cacbad074c8d4ef",
     of(b'{"z": "", "a": [{"c": {}, "b": []}, [[]]]}', content_type="application/vnd.api+json; ext=x")),
    ("11281eec91dbdfb3bb889f07a7e779d01050bd0fa0e3198953d3ac8decf9bae0", of(b'{"a":1,"a":2}')),
    ("6db884e3cd3c9c998e6882fa35b7d8726a14a65d9f601193fe269485f768960a", of(b'{"a":')),
    ("730eebbff7289ed2afc1c32622a0a4cac50aa5d6b81ff156d953af87870cd18f",
     of(b"b=2&a=1", content_type="application/x-www-form-urlencoded")),
    ("fe0404bc9f8491d7bffc7db64974267ced60387a6d28d2ba512c811456c3b885",
     of(bytes(range(256)), path="/ü", tenant="Straße", content_type="application/octet-stream")),
    ("6daf7a0f0e1c0a374809665d10f80eefc0bd431d917364c8a8d30812716e89a8",
     form(FORM, "x")),
]  # fmt: skip


def test_fingerprints_stay_what_they_were() -> None:
    assert [(taken.digest.hex(), taken.version) for _, taken in GOLDEN] == [(digest, 1) for digest, _ in GOLDEN]
    assert VERSION == 1


def test_the_hash_of_a_key_stays_what_it_was_and_belongs_to_its_tenant() -> None:
    hashed = key_hash("acme", "8e03978e-40d5-43dd-bc93-6894a57f9324")

    assert hashed.hex() == "0302c68099dab45c28759fe17438da6cbf6259bac8e9f6ad46959c6c0aa8b380"
    assert len({key_hash("a", "bc"), key_hash("ab", "c"), key_hash("b", "bc"), key_hash("", "abc")}) == 4


# -- JSON --------------------------------------------------------------------------------------------------------------

SAME = [
    ("1", "1.0"), ("100", "1e2"), ("100", "100.00E+0"), ("0", "-0"), ("0", "-0.0e-9"), ("0.1", "1e-1"),
    ("0", "0e999999999999999999999999"), ("1e999999999", "10e999999998"),
    ("123456789012345678901234567890", "1.2345678901234567890123456789e29"),
    ("1e999999999999999999", "1.0e999999999999999999"),
    ('"é"', '"\\u00e9"'), ('"\U0001f9b6"', '"\\ud83e\\uddb6"'), ('"/"', '"\\/"'), ('"a"', '"\\u0061"'),
]  # fmt: skip
DIFFERENT = [
    ("1", "2"), ("1", "true"), ("0", "false"), ("0", "null"), ("1", '"1"'), ("1", "-1"),
    ("0.1", "0.10000000000000000000000000000000000001"), ("9007199254740992", "9007199254740993"),
    ("1e999999999", "1e999999998"), ("1e-400", "0"), ("[]", "{}"), ("[]", "[[]]"), ("[1,2]", "[2,1]"),
    ("[1,2]", "[12]"), ('"é"', '"e\u0301"'), ('"a"', '"A"'), ('"\\ud800"', '"\\udc00"'),
    ('{"a":1}', '{"a":1,"b":null}'), ('{"a":{"b":1}}', '{"a":1,"b":1}'),
    ('{"a":[{"b":1}]}', '{"a":[{"b":2}]}'), ("0.1", '[NaN,"1",-1]'), ("0.1", '["NaN","1",-1]'),
]  # fmt: skip
BYTE_BY_BYTE = [
    b"", b"{", b'{"a":1,"a":1}', b'{"a":1,"\\u0061":1}', b'{"b":{"a":1,"a":1}}', b"[NaN]", b"[Infinity]",
    b"[-Infinity]", b"\xef\xbb\xbf[1]", b'"\xff"', b'"a\nb"', b"[1,]", b"[01]", b"1e" + b"9" * 5000,
    '{"a": 1}'.encode("utf-16"), b"[" * (DEEPEST + 1) + b"]" * (DEEPEST + 1),
]  # fmt: skip
"""What has no canonical form: broken, ambiguous, or too deep."""


def test_how_json_is_written_does_not_matter() -> None:
    assert [pair for pair in SAME if of(pair[0].encode()) != of(pair[1].encode())] == []


def test_what_json_means_does() -> None:
    assert [pair for pair in DIFFERENT if of(pair[0].encode()) == of(pair[1].encode())] == []


def test_what_has_no_canonical_form_counts_byte_by_byte() -> None:
    assert [body for body in BYTE_BY_BYTE if of(body) != of(body) or of(body) == of(body + b" ")] == []


def test_nesting_is_read_to_its_bound_and_no_stack_overflows() -> None:
    deep = b"[" * DEEPEST + b"1" + b"]" * DEEPEST
    deepest = b'{"a":' * 200_000 + b"1" + b"}" * 200_000

    assert of(deep) == of(deep.replace(b"1", b" 1.0 "))
    assert of(deepest) != of(deepest + b" ")


def test_a_long_number_takes_neither_time_nor_memory() -> None:
    began = time.process_time()

    assert of(b"9" * 100_000) == of(b"9" * 100_000 + b".0")
    assert of(b"[" + b"1e99999999," * 10_000 + b"1]") != of(b"1")
    assert time.process_time() - began < 1


# -- money -------------------------------------------------------------------------------------------------------------

ONE_AMOUNT = ['"19.9"', '"19.90"', '"19.900"', "19.9", "19.90", "1.99e1", "1990e-2"]
OTHER_AMOUNTS = [
    '"19.91"', "19.91", '"-19.90"', "1990", '"1990"', '"19,90"', '" 19.90"', '"19.90 "', '"+19.90"', '"019.90"',
    '"1.99e1"', '"19.901"', "19.901", '"NaN"', '"١٩"', "null", "true", "[19.90]", '{"a": 19.90}',
    "[Infinity,1990]", '["Infinity",1990]',  # as an amount in minor units is written in the canonical form
]  # fmt: skip


def amount(text: str, currency: str = "EUR") -> Fingerprint:
    return of(f'{{"total": {{"amount": {text}, "currency": "{currency}"}}, "note": "x"}}'.encode())


def test_money_is_counted_in_minor_units() -> None:
    assert [text for text in ONE_AMOUNT if amount(text) != amount('"19.90"')] == []
    assert [text for text in OTHER_AMOUNTS if amount(text) == amount('"19.90"')] == []


def test_the_currency_matters_and_without_a_known_one_an_amount_is_a_text_like_any_other() -> None:
    assert amount('"5"', "EUR") != amount('"5"', "USD")
    assert amount('"5"', "EUR") == amount('"5.00"', "EUR")
    assert amount('"5.0"', "JPY") == amount("5", "JPY")
    assert amount('"5.5"', "JPY") != amount("5.5", "JPY")
    assert amount('"5"', "XXQ") != amount('"5.00"', "XXQ")
    assert of(b'{"amount":"19.9"}') != of(b'{"amount":"19.90"}')


# -- forms -------------------------------------------------------------------------------------------------------------

CHANGES = [
    (b"hello", b"Hello"),
    (b'name="note"', b'name="toneless"'),
    (b"a.txt", b"b.txt"),
    (b"text/plain", b"text/html"),
    (b"line\r\n", b"line"),
    (b"Content-Type: text/plain", b"Content-Transfer-Encoding: base64"),
]
NO_FORMS = [
    b"",
    b"no parts at all",
    b"before\r\n" + FORM,
    FORM + b"after",
    PARTS % (b"x", b"x", b"y"),
    b"--x\r\nContent-Disposition form-data\r\n\r\n1\r\n--x--",
    b"--x\r\nContent-Disposition: form-data;\r\n name=a\r\n\r\n1\r\n--x--",
    b"--x\r\nno empty line\r\n--x--",
    b"--xyz\r\n\r\n1\r\n--x--",
]


def test_the_boundary_of_a_form_does_not_matter() -> None:
    other = PARTS % (b"--WebKit:y", b"--WebKit:y", b"--WebKit:y")

    assert form(FORM, "x") == form(other, '"--WebKit:y"; charset=utf-8')


def test_anything_in_a_part_and_the_order_of_parts_does() -> None:
    part = b'--x\r\nContent-Disposition: form-data; name="%b"\r\n\r\n\r\n'
    one, other = part % b"a" + part % b"b", part % b"b" + part % b"a"

    assert form(one + b"--x--", "x") != form(other + b"--x--", "x")
    assert [
        change for change in CHANGES if change[0] not in FORM or form(FORM.replace(*change), "x") == form(FORM, "x")
    ] == []


def test_a_form_that_is_not_well_written_counts_byte_by_byte() -> None:
    same = [body for body in NO_FORMS if form(body, "x") == form(body, "other")]

    assert same == NO_FORMS
    assert [body for body in NO_FORMS if form(body, "x") == form(body + b" ", "x")] == []
    assert of(FORM, content_type="multipart/form-data") != form(FORM, "x")


# -- around the body ---------------------------------------------------------------------------------------------------


def test_parameters_and_capitals_of_the_media_type_do_not_matter() -> None:
    assert of(CHARGE, content_type="Application/JSON ; charset=utf-8") == of(CHARGE)


def test_everything_around_the_body_matters() -> None:
    different = [
        of(CHARGE),
        of(CHARGE, method="PUT"),
        of(CHARGE, path="/v1/charges/"),
        of(CHARGE, path="/V1/charges"),
        of(CHARGE, query="a=1"),
        of(CHARGE, query="a=1&b=2"),
        of(CHARGE, query="b=2&a=1"),
        of(CHARGE, tenant="acme2"),
        of(CHARGE, content_type="application/vnd.api+json"),
        of(CHARGE, content_type="text/plain"),
        of(CHARGE, content_type=None),
        of(CHARGE, path="/v1/charge", query="s"),
    ]

    assert len({taken.digest for taken in different}) == len(different)


def test_nothing_of_one_part_passes_for_the_next() -> None:
    """The same letters, cut into method, path, query and tenant at every place."""
    text, places = "abc", [*combinations_with_replacement(range(4), 3)]
    taken = {
        of(b"", method=text[:a], path=text[a:b], query=text[b:c], tenant=text[c:], content_type=None).digest
        for a, b, c in places
    }

    assert len(taken) == len(places) == 20


# -- any values, in any spelling ---------------------------------------------------------------------------------------

Value = Any
"""None, bool, Decimal, str, list or dict of such."""

_numbers = some.one_of(
    some.integers(-100, 100).map(Decimal),
    some.integers(-(10**40), 10**40).map(Decimal),
    some.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**6), max_value=10**6, places=3),
    some.tuples(some.integers(-999, 999), some.integers(-400, 400)).map(
        lambda parts: Decimal(f"{parts[0]}e{parts[1]}")
    ),
)
_texts = some.text(some.characters(exclude_categories=["Cs"]), max_size=6)
_names = some.one_of(some.sampled_from("abc"), _texts)
_values = some.recursive(
    some.one_of(some.none(), some.booleans(), _numbers, _texts),
    lambda inner: some.one_of(some.lists(inner, max_size=3), some.dictionaries(_names, inner, max_size=4)),
    max_leaves=8,
)


_space = some.sampled_from(["", " ", "\n\t", "\r\n"])


@some.composite
def _spellings(draw: some.DrawFn, value: Value) -> bytes:
    return _spell(draw, value).encode("utf-8")


def _spell(draw: some.DrawFn, value: Value) -> str:
    match value:
        case Decimal():
            text = _spell_number(draw, value)
        case list():
            text = "[" + ",".join(_spell(draw, each) for each in value) + "]"
        case dict():
            members = draw(some.permutations(list(value.items())))
            text = "{" + ",".join(f"{_spell(draw, name)}:{_spell(draw, each)}" for name, each in members) + "}"
        case _:
            text = json.dumps(value, ensure_ascii=draw(some.booleans()))
    return draw(_space) + text + draw(_space)


def _spell_number(draw: some.DrawFn, number: Decimal) -> str:
    """As digits with more or fewer zeros and any exponent: 100, 100.0, 1e2, 0.1E+3 …"""
    sign, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits)) + "0" * draw(some.integers(0, 3))
    exponent -= len(text) - len(digits)
    point = draw(some.integers(0, len(text)))  # digits before the point
    power = exponent + len(text) - point
    whole, fraction = text[:point].lstrip("0") or "0", text[point:]
    spelled = ("-" if sign or (not any(digits) and draw(some.booleans())) else "") + whole
    if fraction or draw(some.booleans()):
        spelled += "." + (fraction or "0")
    if power or draw(some.booleans()):
        plus = "+" if power >= 0 and draw(some.booleans()) else ""
        spelled += draw(some.sampled_from("eE")) + plus + str(power)
    return spelled


def _means_the_same(one: Value, other: Value) -> bool:
    """Equality that does not take true for 1."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_means_the_same(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_means_the_same, one, other))
    return type(one) is type(other) and bool(one == other)


@steady
@given(some.data(), _values, _values)
def test_bodies_have_one_fingerprint_if_they_mean_the_same_and_only_then(
    data: some.DataObject, value: Value, other: Value
) -> None:
    one, again, two = data.draw(_spellings(value)), data.draw(_spellings(value)), data.draw(_spellings(other))

    assert of(one) == of(again)
    assert (of(one) == of(two)) == _means_the_same(value, other)


@steady
@given(
    some.data(), some.decimals(-(10**17), 10**17, places=4, allow_nan=False), some.sampled_from(["EUR", "JPY", "BHD"])
)
def test_money_is_what_money_reads(data: some.DataObject, number: Decimal, currency: str) -> None:
    """A text and a number are one amount exactly where they are money; and no two amounts are one."""
    spelled = data.draw(some.composite(_spell_number)(number))
    written = f"{number:f}"
    try:
        Money(number, currency)
        is_money = True
    except (InvalidMoney, InvalidOperation):
        is_money = False

    assert (amount(f'"{written}"', currency) == amount(spelled, currency)) == is_money
    assert amount(f'"{written}"', currency) != amount(str(number + 1), currency)
