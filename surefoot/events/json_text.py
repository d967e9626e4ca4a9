"""What can be said of a JSON text without reading it: whether it has a NaN, a NUL, and how deep it is nested.

Parsers differ in these: one takes a NaN, another refuses a number that is merely large, and how deep one reads depends
on the stack it is called from. The answers here are the same everywhere and take one pass. Of bytes that are no JSON
they mean nothing, and come just as soon.
"""

import re
from itertools import accumulate

# A text that never ends goes to the end: trying again from each of its escaped quotes would take time squared.
_TEXT = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
_NUL_ESCAPE = b"\\u0000"
_LIVE_NUL_ESCAPE = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
_BRACKETS = b"[{]}"
_STEPS = bytes.maketrans(_BRACKETS, b"\x01\x01\xff\xff")  # one down, and one up: -1 as a signed byte
_ALL_BUT_BRACKETS = bytes(set(range(256)) - set(_BRACKETS))


def has_nul(raw: bytes) -> bool:
    """Whether a text in this JSON has a NUL. A backslash that is itself escaped, followed by u0000, is none."""
    return _NUL_ESCAPE in raw and _LIVE_NUL_ESCAPE.search(raw) is not None


def has_non_finite(raw: bytes) -> bool:
    """Whether there is a bare NaN or Infinity, which pydantic writes and reads and nobody else does."""
    if b"NaN" not in raw and b"Infinity" not in raw:
        return False
    bare = _TEXT.sub(b'""', raw)
    return b"NaN" in bare or b"Infinity" in bare


def is_nested_deeper(raw: bytes, levels: int) -> bool:
    """Whether lists and objects lie within each other more than so many levels deep."""
    if raw.count(b"[") + raw.count(b"{") <= levels:
        return False
    steps = _TEXT.sub(b"", raw).translate(_STEPS, _ALL_BUT_BRACKETS)
    return max(accumulate(memoryview(steps).cast("b")), default=0) > levels
