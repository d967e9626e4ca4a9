"""An Idempotency-Key in double quotes is read as the `http-sf` package reads it, which others wrote from RFC 9651."""

from typing import cast

import http_sf
from http_sf.types import BareItemType
from hypothesis import example, given, settings
from hypothesis import strategies as some

from surefoot.http.idempotency_key import LONGEST, SHORTEST, read_key
from tests.support.corpus import each_of

steady = settings(derandomize=True)
LOOSE = (b"@", b":", b"%")
"""Parameters are ignored. Of dates, bytes and display strings among them, we check the form alone."""

_words = some.sampled_from([*'";?*=\\-. ,()/_', "a", "Z", "0", "1.5", "12345678", '"x"', "?1", "; ", "\t", "é"])
_parameters = some.lists(_words, max_size=8).map(lambda words: "".join(words).encode("latin-1"))
_texts = some.text(some.characters(min_codepoint=0x20, max_codepoint=0x7E), min_size=10, max_size=40)
_values = some.one_of(
    _texts,
    some.integers(-(10**15) + 1, 10**15 - 1),
    some.decimals(-(10**12) + 1, 10**12 - 1, places=3),
    some.booleans(),
    some.binary(max_size=40),
    some.from_regex(r"[A-Za-z*][!#$%&'*+\-.^_`|~0-9A-Za-z:/]{0,20}", fullmatch=True).map(http_sf.Token),
    some.text(some.characters(exclude_categories=["Cs"]), max_size=20).map(http_sf.DisplayString),
)
_names = some.from_regex(r"[a-z*][a-z0-9_\-.*]{0,8}", fullmatch=True)


def peers_reading(field: bytes) -> str | None:
    """The text that the peer reads, if it can be a key."""
    try:
        value, _ = cast(tuple[object, object], http_sf.parse(field, tltype="item"))
    except http_sf.StructuredFieldError:
        return None
    assert isinstance(value, str)
    is_visible = all("!" <= letter <= "~" for letter in value)
    return value if is_visible and SHORTEST <= len(value) <= LONGEST else None


def our_reading(field: bytes) -> str | None:
    found = read_key([field], strict=True)
    return found if isinstance(found, str) else None


@each_of(
    ("field", "key"),
    [
        (b'"8e03978e-40d5-43dd"', "8e03978e-40d5-43dd"),
        (b'"8e03978e-40d5-43dd"; a; b=1;c="x";d=?1;e=tok/en:x;f=:YQ==:;g=@1;h=%"%c3%bc"', "8e03978e-40d5-43dd"),
        (rb'"8e03978e\\40d5\"43dd"', '8e03978e\\40d5"43dd'),
        (b'"8e03978e-40d5-43dd', None),
        (b'"8e03978e-40d5-43dd" x', None),
        (b'"8e03978e-40d5-43dd";', None),
        (b'"8e03978e-40d5-43dd";A=1', None),
        (b'"8e03978e-40d5-43dd";a=1.2345', None),
        (b'"8e03978e-40d5-43dd";a=1234567890123456', None),
        (b'"8e03978e-40d5-43dd";a=?2', None),
        (rb'"8e03978e\40d5-43dd"', None),
        (b'"8e03978e-40d5-43d\xfc"', None),
    ],
)
def test_the_table_is_read_the_same(field: bytes, key: str | None) -> None:
    assert our_reading(field) == key
    assert peers_reading(field) == key


@steady
@given(_texts, some.dictionaries(_names, _values, max_size=3))
def test_what_the_peer_writes_is_read(text: str, parameters: dict[str, BareItemType]) -> None:
    written = http_sf.ser((text, parameters)).encode()
    assert our_reading(written) == peers_reading(written)


@steady
@given(_parameters)
@example(b';b="')
def test_what_follows_the_text_is_accepted_and_refused_as_by_the_peer(parameters: bytes) -> None:
    field = b'"8e03978e-40d5-43dd"' + parameters.rstrip()
    if not any(sign in parameters for sign in LOOSE):
        assert our_reading(field) == peers_reading(field)


@steady
@given(some.binary(min_size=16, max_size=30))
def test_any_bytes_in_quotes_are_accepted_and_refused_as_by_the_peer(inside: bytes) -> None:
    field = b'"' + inside + b'"'
    if not any(sign in inside for sign in LOOSE):
        assert our_reading(field) == peers_reading(field)
