"""The parts of a multipart body, whatever boundary lies between them: clients make one up for each attempt. Pure."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

_QUOTED = r""""([0-9A-Za-z'()+_,\-./:=? ]{1,70})\""""
_UNQUOTED = r"([0-9A-Za-z'+_\-.!#$%&*^`|~]{1,70})"
_BOUNDARY = re.compile(rf";[ \t]*boundary=(?:{_QUOTED}|{_UNQUOTED})[ \t]*(?:;|\Z)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Part:
    headers: tuple[tuple[bytes, bytes], ...]
    """Its name, file name and content type are in them. Sorted, names in small letters."""
    content: bytes


def read_parts(content_type: str, body: bytes) -> list[Part] | None:
    """The parts in their order; None if the body is not written as it should be."""
    boundary = _BOUNDARY.search(content_type)
    if boundary is None:
        return None
    delimiter = b"--" + (boundary[1] or boundary[2]).encode("ascii")
    try:
        return list(_parts(delimiter, body))
    except _Malformed:
        return None


class _Malformed(ValueError):
    pass


def _parts(delimiter: bytes, body: bytes) -> Iterator[Part]:
    # A line break belongs to the delimiter after it; the first one may do without.
    before, *pieces = (b"\r\n" + body).split(b"\r\n" + delimiter)
    if before or not pieces or pieces[-1].rstrip(b"\r\n \t") != b"--":
        raise _Malformed  # text around the parts is allowed, and read differently by different servers
    for piece in pieces[:-1]:
        padding, line_break, rest = piece.partition(b"\r\n")
        if padding.strip(b" \t") or not line_break:
            raise _Malformed
        yield _part(rest)


def _part(text: bytes) -> Part:
    if text.startswith(b"\r\n"):
        return Part((), text[2:])
    head, empty_line, content = text.partition(b"\r\n\r\n")
    if not empty_line:
        raise _Malformed
    return Part(tuple(sorted(_header(line) for line in head.split(b"\r\n"))), content)


def _header(line: bytes) -> tuple[bytes, bytes]:
    name, colon, value = line.partition(b":")
    if not colon or not name or name != name.strip():  # a folded line begins with a space
        raise _Malformed
    return name.lower(), value.strip(b" \t")
