"""The Idempotency-Key of a request: from its header lines to one key, or to why it cannot be used. Pure.

`"…"` (a string of Structured Fields, as the header is specified) and the bare value that most clients send are the same
key.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

HEADER = "Idempotency-Key"
SHORTEST = 16
LONGEST = 255

_VISIBLE = bytes(range(0x21, 0x7F))
# RFC 9651: a string, then parameters, which mean nothing here and are ignored, as the specification says.
_STRING = r'"(?:[ !#-\[\]-~]|\\["\\])*+"'
_BARE_ITEM = rf"""(?:
    {_STRING} | %"(?:[ !\#$&-~]|%[0-9a-f]{{2}})*+" | \?[01] | @?-?[0-9]{{1,15}}(?![0-9.])
    | -?[0-9]{{1,12}}\.[0-9]{{1,3}}(?![0-9]) | :(?:[A-Za-z0-9+/]{{4}})*(?:[A-Za-z0-9+/]{{2,3}})?={{0,2}}:
    | [A-Za-z*][!\#$%&'*+\-.^_`|~0-9A-Za-z:/]*)"""
_ITEM = re.compile(rf"({_STRING})(?:;\ *[a-z*][a-z0-9_\-.*]*(?:={_BARE_ITEM})?)*\ *", re.VERBOSE)
_ESCAPED = re.compile(r"\\(.)")
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
    found = _ITEM.fullmatch(line.decode("latin-1"))
    if found is None:
        return KeyProblem(
            f"{HEADER} begins with a double quote and is not a text in double quotes: send it as in {_EXAMPLE}."
        )
    return _fitting(_ESCAPED.sub(r"\1", found[1][1:-1]).encode("ascii"))


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
