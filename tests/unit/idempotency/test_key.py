"""The Idempotency-Key header: one key in two spellings, and sentences for everything else."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from surefoot.idempotency.key import KeyProblem, read_key

steady = settings(deadline=None, derandomize=True)
KEY = "8e03978e-40d5-43dd-bc93-6894a57f9324"
_keys = some.text(some.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=16, max_size=255)


def _problem(*lines: bytes, strict: bool = False) -> str:
    found = read_key(lines, strict)
    assert isinstance(found, KeyProblem)
    return found.sentence


@pytest.mark.parametrize("strict", [False, True])
def test_without_a_header_line_there_is_no_key(strict: bool) -> None:
    assert read_key([], strict) is None


@pytest.mark.parametrize(
    "line",
    [
        f'"{KEY}"',
        f'  "{KEY}"\t',
        f'"{KEY}";a=1;b="x"',
        f'"{KEY}"; later',
    ],
)
def test_a_text_in_double_quotes_is_the_key_within_and_its_parameters_mean_nothing(line: str) -> None:
    assert read_key([line.encode()], strict=False) == KEY
    assert read_key([line.encode()], strict=True) == KEY


@pytest.mark.parametrize("line", [KEY, f" {KEY} ", f"\t{KEY}"])
def test_a_bare_value_is_the_same_key_unless_strict(line: str) -> None:
    assert read_key([line.encode()], strict=False) == KEY
    assert "double quotes" in _problem(line.encode(), strict=True)


@steady
@given(_keys.filter(lambda key: not key.startswith('"')))
def test_both_spellings_of_any_key_are_one(key: str) -> None:
    quoted = '"' + key.replace("\\", "\\\\").replace('"', '\\"') + '"'

    assert read_key([key.encode()], strict=False) == key
    assert read_key([quoted.encode()], strict=False) == key
    assert read_key([quoted.encode()], strict=True) == key


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"", "is empty"),
        (b"  \t ", "is empty"),
        (b'""', "has 0 characters and must have 16 to 255"),
        (b"fifteen-letters", "has 15 characters and must have 16 to 255"),
        (b'"fifteen-letters"', "has 15 characters and must have 16 to 255"),
        (b"x" * 256, "has 256 characters and must have 16 to 255"),
        (b'"' + b"x" * 256 + b'"', "has 256 characters and must have 16 to 255"),
        (b'"a key with spaces in it"', "not visible ASCII"),
        (b"a key with spaces in it", "not visible ASCII"),
        (b"first-key-0123456789, second-key-0123456789", "not visible ASCII"),
        ("schlüssel-0123456789".encode(), "not visible ASCII"),
        (b"a-key-0123456789\x00", "not visible ASCII"),
        (b"a-key-0123456789\x7f", "not visible ASCII"),
        (b"a-key-\t0123456789", "not visible ASCII"),
        (f'"{KEY}'.encode(), "is not a text in double quotes"),
        (f'"{KEY}" and more'.encode(), "is not a text in double quotes"),
        (f'"{KEY}", "{KEY}"'.encode(), "is not a text in double quotes"),
        (f'"{KEY}";'.encode(), "is not a text in double quotes"),
        (b'"schl\xc3\xbcssel-0123456789"', "is not a text in double quotes"),
        (rb'"a-key-\u0031-0123456789"', "is not a text in double quotes"),
    ],
)
def test_what_cannot_be_a_key_is_refused_with_what_to_do(line: bytes, said: str) -> None:
    sentence = _problem(line)

    assert said in sentence
    assert sentence.startswith("Idempotency-Key ")
    assert ": " in sentence
    assert sentence.endswith(".")


@pytest.mark.parametrize("line", [b":OGUwMzk3OGUtNDBkNS00M2Rk:", b"1234567890", b"?1", KEY.encode()])
def test_strict_takes_no_other_kind_of_item(line: bytes) -> None:
    assert "double quotes" in _problem(line, strict=True)


def test_two_lines_are_refused_even_if_they_are_the_same() -> None:
    assert _problem(KEY.encode(), KEY.encode()) == "Idempotency-Key was sent 2 times: send it once."


@pytest.mark.parametrize("length", [16, 255])
def test_the_shortest_and_the_longest_key_are_taken(length: int) -> None:
    assert read_key([b"x" * length], strict=False) == "x" * length


@steady
@given(some.lists(some.binary(max_size=40), max_size=3), some.booleans())
def test_any_bytes_are_a_key_or_a_problem(lines: list[bytes], strict: bool) -> None:
    found = read_key(lines, strict)

    assert found is None or isinstance(found, KeyProblem) or 16 <= len(found) <= 255
