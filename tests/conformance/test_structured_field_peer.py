"""The structured fields of the `http-sf` package, written by others from the same specification, read as ours are."""

from datetime import datetime
from decimal import Decimal
from typing import cast

import http_sf
from http_sf.types import BareItemType
from hypothesis import example, given, settings
from hypothesis import strategies as some

from surefoot.idempotency.structured_field import BareItem, Date, DisplayString, Item, MalformedField, Token, parse_item
from tests.unit.idempotency.test_structured_field import PARAMETERS, REFUSED, VALUES

steady = settings(deadline=None, derandomize=True)
LAST_DATE_OF_THE_PEER = 253402300799
FIRST_DATE_OF_THE_PEER = -62135596800

_words = some.sampled_from(
    [
        *'";:?@%*=\\-. ,()/_',
        "a",
        "Z",
        "0",
        "9",
        "1.5",
        "12345678",
        '"x"',
        "?1",
        "%c3%bc",
        ":YQ==:",
        "@1",
        "; ",
        "\t",
        "é",
    ]
)
_nearly_items = some.lists(_words, max_size=8).map(lambda words: "".join(words).encode("latin-1"))
_texts = some.text(some.characters(min_codepoint=0x20, max_codepoint=0x7E), max_size=40)
_written = some.one_of(
    _texts,
    some.integers(-(10**15) + 1, 10**15 - 1),
    some.decimals(-(10**12) + 1, 10**12 - 1, places=3),
    some.booleans(),
    some.binary(max_size=40),
    some.from_regex(r"[A-Za-z*][!#$%&'*+\-.^_`|~0-9A-Za-z:/]{0,20}", fullmatch=True).map(http_sf.Token),
    some.text(some.characters(exclude_categories=["Cs"]), max_size=20).map(http_sf.DisplayString),
)
_names = some.from_regex(r"[a-z*][a-z0-9_\-.*]{0,8}", fullmatch=True)


def _peers_reading(field: bytes) -> Item | None:
    try:
        value, parameters = cast(tuple[object, dict[str, object]], http_sf.parse(field, tltype="item"))
    except http_sf.StructuredFieldError:
        return None
    return Item(_ours(value), {name: _ours(value) for name, value in parameters.items()})


def _ours(value: object) -> BareItem:
    match value:
        case http_sf.Token():
            return Token(str(value))
        case http_sf.DisplayString():
            return DisplayString(str(value))
        case datetime():
            return Date(int(value.timestamp()))
        case str() | bool() | int() | Decimal() | bytes():
            return value
        case _:
            raise AssertionError(value)


def _our_reading(field: bytes) -> Item | None:
    try:
        return parse_item(field)
    except MalformedField:
        return None


def _is_beyond_the_peers_dates(item: Item | None) -> bool:
    values = [] if item is None else [item.value, *item.parameters.values()]
    return any(
        isinstance(value, Date) and not FIRST_DATE_OF_THE_PEER <= value.seconds <= LAST_DATE_OF_THE_PEER
        for value in values
    )


def _check(field: bytes) -> None:
    ours = _our_reading(field)
    if not _is_beyond_the_peers_dates(ours):
        assert ours == _peers_reading(field)


def test_the_peer_reads_every_vector_of_the_table_as_we_do() -> None:
    for field in [*(field for field, _ in [*VALUES, *PARAMETERS]), *REFUSED]:
        _check(field)


@steady
@given(_nearly_items)
@example(b'"a";b="')
def test_the_peer_reads_and_refuses_what_looks_like_an_item_as_we_do(field: bytes) -> None:
    _check(field)


@steady
@given(some.binary(max_size=20))
def test_the_peer_reads_and_refuses_any_bytes_as_we_do(field: bytes) -> None:
    _check(field)


@steady
@given(_written, some.dictionaries(_names, _written, max_size=3))
def test_what_the_peer_writes_is_read(value: BareItemType, parameters: dict[str, BareItemType]) -> None:
    field = http_sf.ser((value, parameters)).encode("ascii")

    assert parse_item(field) == Item(_ours(value), {name: _ours(value) for name, value in parameters.items()})
