"""The Idempotency-Key header: one key in two spellings, and sentences for everything else."""

from functools import partial

from hypothesis import given, settings
from hypothesis import strategies as some

from surefoot.http.idempotency_key import KeyProblem, read_key
from tests.support.corpus import check_each

steady = settings(derandomize=True)
KEY = "8e03978e-40d5-43dd-bc93-6894a57f9324"
QUOTED = [f'"{KEY}"', f'  "{KEY}"\t', f'"{KEY}";a=1;b="x"', f'"{KEY}"; later']
BARE = [KEY, f" {KEY} ", f"\t{KEY}"]
LENGTH = "characters and must have 16 to 255"
REFUSED: list[tuple[bytes, str]] = [
    (b"", "is empty"),
    (b"  \t ", "is empty"),
    (b'""', f"has 0 {LENGTH}"),
    (b"fifteen-letters", f"has 15 {LENGTH}"),
    (b'"fifteen-letters"', f"has 15 {LENGTH}"),
    (b"x" * 256, f"has 256 {LENGTH}"),
    (b'"' + b"x" * 256 + b'"', f"has 256 {LENGTH}"),
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
]
_keys = some.text(some.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=16, max_size=255)


def _problem(*lines: bytes, strict: bool = False) -> str:
    found = read_key(lines, strict)
    assert isinstance(found, KeyProblem), f"it was read as {found!r}"
    return found.sentence


def test_strict_takes_the_key_in_double_quotes_only() -> None:
    assert [read_key([line.encode()], strict) for line in QUOTED for strict in (False, True)] == [KEY] * 8
    assert [read_key([line.encode()], strict=False) for line in BARE] == [KEY] * 3
    for line in (*BARE, ":OGUwMzk3OGUtNDBkNS00M2Rk:", "1234567890", "?1"):
        assert "double quotes" in _problem(line.encode(), strict=True)


@steady
@given(_keys.filter(lambda key: not key.startswith('"')))
def test_both_spellings_of_any_key_are_one(key: str) -> None:
    quoted = '"' + key.replace("\\", "\\\\").replace('"', '\\"') + '"'

    assert read_key([key.encode()], strict=False) == key
    assert read_key([quoted.encode()], strict=False) == key
    assert read_key([quoted.encode()], strict=True) == key


def test_what_cannot_be_a_key_is_refused_with_what_to_do() -> None:
    def check(line: bytes, said: str) -> None:
        sentence = _problem(line)
        assert said in sentence, sentence
        assert sentence.startswith("Idempotency-Key "), sentence
        assert ": " in sentence, sentence
        assert sentence.endswith("."), sentence

    check_each((repr(line), partial(check, line, said)) for line, said in REFUSED)
    assert _problem(KEY.encode(), KEY.encode()) == "Idempotency-Key was sent 2 times: send it once."


@steady
@given(some.lists(some.binary(max_size=40), max_size=3), some.booleans())
def test_any_bytes_are_a_key_or_a_problem(lines: list[bytes], strict: bool) -> None:
    found = read_key(lines, strict)

    assert found is None or isinstance(found, KeyProblem) or 16 <= len(found) <= 255
