"""Items of structured fields: what the specification says of each kind, as a table, and character by character."""

from decimal import Decimal
from functools import partial
from string import ascii_letters, ascii_lowercase, digits

from surefoot.idempotency.structured_field import BareItem, Date, DisplayString, Item, MalformedField, Token, parse_item
from tests.support.corpus import check_each

VALUES: list[tuple[bytes, BareItem]] = [
    # texts
    (b'"foo bar"', "foo bar"), (b'""', ""), (b'"   "', "   "), (b'  "in spaces"  ', "in spaces"),
    (b'"' + b"foo " * 65 + b'"', "foo " * 65), (b'"' + b'\\"' * 1024 + b'"', '"' * 1024),
    (rb'"foo \"bar\" \\ baz"', r'foo "bar" \ baz'), (b'"a, b; c=d"', "a, b; c=d"),
    # integers
    (b"42", 42), (b"0", 0), (b"00", 0), (b"-0", 0), (b"-42", -42), (b"042", 42), (b"-042", -42), (b"  1", 1),
    (b"1  ", 1), (b"123456789012345", 123456789012345), (b"-123456789012345", -123456789012345),
    (b"000000000000000", 0),
    # decimals
    (b"1.23", Decimal("1.23")), (b"-1.23", Decimal("-1.23")), (b"1.0", Decimal("1.0")), (b"00.1", Decimal("0.1")),
    (b"1.123", Decimal("1.123")), (b"123456789012.1", Decimal("123456789012.1")),
    (b"-999999999999.999", Decimal("-999999999999.999")),
    # tokens
    (b"a_b-c.d3:f%00/*", Token("a_b-c.d3:f%00/*")), (b"fooBar", Token("fooBar")), (b"FooBar", Token("FooBar")),
    (b"*foo", Token("*foo")), (b"*", Token("*")), (b"a" * 512, Token("a" * 512)),
    # booleans
    (b"?1", True), (b"?0", False),
    # bytes
    (b":aGVsbG8=:", b"hello"), (b":aGVsbG8:", b"hello"), (b"::", b""), (b":iZ==:", b"\x89"),
    (b":/+Ah:", b"\xff\xe0\x21"),
    # dates
    (b"@0", Date(0)), (b"@1659578233", Date(1659578233)), (b"@-1659578233", Date(-1659578233)),
    (b"@999999999999999", Date(999999999999999)),
    # texts for people
    (b'%"foo bar"', DisplayString("foo bar")), (b'%""', DisplayString("")),
    (b'%"f%c3%bc%c3%bc"', DisplayString("füü")), (b'%"foo %22bar%22 \\ baz"', DisplayString('foo "bar" \\ baz')),
    (b'%"100%25"', DisplayString("100%")), (b'%"BOM: %ef%bb%bf"', DisplayString("BOM: \ufeff")),
    (b'%"%f0%9f%a6%b6"', DisplayString("\U0001f9b6")),
]  # fmt: skip
REFUSED = [
    # nothing, or more than one
    b"", b"   ", b"1, 2", b'"a", "b"', b'"a" "b"', b"(1 2)", b"a=1, b=2", b"\t1", b"1\t",
    # texts
    b"'foo'", b'"foo', b'foo"', b'"foo" bar', b'"', b'"f\xc3\xbc\xc3\xbc"', rb'"\t"', rb'" \n "', rb'"foo \,"',
    b'"foo \\"', b'"foo \\', b'"a"b"',
    # integers
    b"--0", b"-", b"+1", b"-a23", b"4-2", b"- 42", b"1234567890123456", b"-1234567890123456", b"0000000000000000",
    b"1e3", b"0x10", "\u0661".encode(),
    # decimals
    b"1.", b".1", b"-.1", b"1. 23", b"1 .23", b"- 1.23", b"1.5.4", b"1..4", b"1.1234", b"-1.1234", b"1234567890123.0",
    b"-1234567890123.0", b"0000000000000.0",
    # tokens
    b"abc(def", b"a b", b"-abc", b"_abc", b"/abc",
    # booleans
    b"?", b"?2", b"?T", b"?t", b"?true", b"? 1", b"?10",
    # bytes
    b":aGVsbG8=", b"aGVsbG8=:", b":aGVsb G8=:", b":aGVsbG!8=:", b":aGVsbG8=!:", b":_-Ah:", b":=aGVsbG8:",
    b":aGVs=bG8:", b":aGVsbG8===:", b":a:", b":=:", b":====:",
    # dates
    b"@", b"@1659578233.12", b"@1.", b"@-", b"@ 1", b"@1234567890123456", b"@a",
    # texts for people
    b'%"f%C3%BC"', b'%"a\tb"', b'%"a\nb"', b"%'foo'", b"%foo", b'%foo"', b'%"foo', b'%"foo %a', b'%"foo %a"',
    b'%"foo %"', b'%"foo %zz"', b'%"%c3%28"', b'%"%a0%a1"', b'%"%e2%28%a1"', b'%"%f0%28%8c%28"', b'%"%ed%a0%80"',
    b'%"%f4%90%80%80"', b'%"%c0%80"', b'%"\xc3\xbc"',
    # parameters
    b"a;", b"a;;b", b"a;B=1", b"a;1=1", b"a;b=", b"a;b =1", b"a;b= 1", b"a ;b", b"a;\tb", b"a;b=(1)", b"a;b=1,c",
    b'a;b="',
]  # fmt: skip
PARAMETERS: list[tuple[bytes, dict[str, BareItem]]] = [
    (b'"x";a', {"a": True}),
    (b'"x";a;b', {"a": True, "b": True}),
    (b'"x"; a=1;   b=2', {"a": 1, "b": 2}),
    (b'"x";a=?0', {"a": False}),
    (b'"x";a=1;b;a=2', {"a": 2, "b": True}),
    (b'"x";*a.b-c_9=t', {"*a.b-c_9": Token("t")}),
    (b'"x";a="q;b";c=1.5;d=:YQ==:;e=@1;f=%"%c3%bc"', {
        "a": "q;b", "c": Decimal("1.5"), "d": b"a", "e": Date(1), "f": DisplayString("ü"),
    }),
    (b'"x";' + b";".join(b"a%d=1" % number for number in range(256)), {f"a{number}": 1 for number in range(256)}),
]  # fmt: skip
PRINTABLE = "".join(map(chr, range(0x20, 0x7F)))
ALLOWED = {
    b'" \0 "': PRINTABLE.translate({ord('"'): None, ord("\\"): None}),
    b'"\\\0"': '"\\',
    b"a\0a": ascii_letters + digits + "!#$%&'*+-.^_`|~:/" + ";",  # behind a semicolon comes a parameter
    b"\0a": ascii_letters + "* ",
    b"x; a\0a=1": ascii_lowercase + digits + "_-.*" + ";",
    b"x; \0a=1": ascii_lowercase + "* ",
}
"""For each place, marked by a zero byte, the characters that may be there."""


def test_a_well_formed_item_is_read() -> None:
    def check(field: bytes, value: BareItem) -> None:
        item = parse_item(field)
        assert item == Item(value, {}), item
        assert type(item.value) is type(value), item

    check_each((repr(field), partial(check, field, value)) for field, value in VALUES)


def test_what_is_not_exactly_one_item_is_refused() -> None:
    assert [field for field in REFUSED if _read(field) is not None] == []


def test_parameters_are_read_in_order_and_the_last_of_a_name_counts() -> None:
    def check(field: bytes, parameters: dict[str, BareItem]) -> None:
        found = parse_item(field).parameters
        assert list(found.items()) == list(parameters.items()), found

    check_each((repr(field), partial(check, field, parameters)) for field, parameters in PARAMETERS)


def test_every_character_is_read_where_the_specification_allows_it_and_nowhere_else() -> None:
    every_byte = [bytes([code]) for code in range(0x100)]

    for place, allowed in ALLOWED.items():
        read = {byte for byte in every_byte if _read(place.replace(b"\0", byte)) is not None}
        assert read == {character.encode() for character in allowed}, place


def test_numbers_have_as_many_digits_as_the_specification_allows() -> None:
    whole, fractions = range(1, 20), range(1, 6)

    assert [count for count in whole if _value(b"9" * count) == 10**count - 1] == list(range(1, 16))
    decimals = [(count, after) for count in whole for after in fractions if _read(b"9" * count + b"." + b"9" * after)]
    assert decimals == [(count, after) for count in range(1, 13) for after in range(1, 4)]


def _read(field: bytes) -> Item | None:
    try:
        return parse_item(field)
    except MalformedField:
        return None


def _value(field: bytes) -> BareItem | None:
    read = _read(field)
    return None if read is None else read.value
