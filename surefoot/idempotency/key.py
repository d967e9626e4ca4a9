"""The Idempotency-Key of a request: from its header lines to one key, or to why it cannot be used. Pure.

`"…"` (a string of Structured Fields, as the header is specified) and the bare value that most clients send are the same
key.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from surefoot.idempotency.structured_field import MalformedField, parse_item

HEADER = "Idempotency-Key"
SHORTEST = 16
LONGEST = 255

_VISIBLE = bytes(range(0x21, 0x7F))
_EXAMPLE = f'{HEADER}: "8e03978e-40d5-43dd-bc93-6894a57f9324"'


@dataclass(frozen=True, slots=True)
class KeyProblem:
    """Why there is no key in what was sent."""

    sentence: str
    """What is wrong, and what to do."""


def read_key(lines: Sequence[bytes], strict: bool) -> str | KeyProblem | None:
    """The key in the header's lines; None if there is no line at all. Strict: in double quotes alone."""
    if not lines:
        return None
    if len(lines) > 1:
        return KeyProblem(f"{HEADER} was sent {len(lines)} times: send it once.")
    line = lines[0].strip(b" \t")
    if not line:
        return KeyProblem(f"{HEADER} is empty: send a new random key with each new request, such as {_EXAMPLE}.")
    if line.startswith(b'"'):
        return _quoted(line)
    if strict:
        return KeyProblem(f"{HEADER} must be a text in double quotes: send it as in {_EXAMPLE}.")
    return _fitting(line)


def _quoted(line: bytes) -> str | KeyProblem:
    try:
        value = parse_item(line).value  # its parameters mean nothing here, and the specification says to ignore them
    except MalformedField as problem:
        return KeyProblem(
            f"{HEADER} begins with a double quote and is not a text in double quotes ({problem}): send it as in "
            f"{_EXAMPLE}."
        )
    assert isinstance(value, str), "what begins with a double quote is a text"
    return _fitting(value.encode("ascii"))


def _fitting(key: bytes) -> str | KeyProblem:
    if key.translate(None, _VISIBLE):
        return KeyProblem(
            f"{HEADER} has a space, or a character that is not visible ASCII: use letters, digits and signs alone, as "
            f"in {_EXAMPLE}."
        )
    if not SHORTEST <= len(key) <= LONGEST:
        return KeyProblem(
            f"{HEADER} has {len(key)} characters and must have {SHORTEST} to {LONGEST}: use a random UUID, as in "
            f"{_EXAMPLE}."
        )
    return key.decode("ascii")
