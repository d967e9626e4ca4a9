"""What is asked for under a key, as one hash: a retry has the same, another request has another. Pure.

In it are the method, the path, the query, the tenant, the media type without its parameters, and the body in its
canonical form. Headers of tracing, the user agent and the key itself are not: they change from attempt to attempt.
"""

from dataclasses import dataclass
from hashlib import sha256

from surefoot.idempotency.http.canonical import canonical_json
from surefoot.idempotency.http.multipart import Part, read_parts

VERSION = 1
"""Stored with each fingerprint. It changes when the same request would get another one."""


@dataclass(frozen=True, slots=True)
class Fingerprint:
    digest: bytes
    version: int


def fingerprint(
    *, method: str, path: str, query: str, tenant: str, content_type: str | None, body: bytes
) -> Fingerprint:
    """The path and the query as they were sent, without `?`."""
    media_type = (content_type or "").partition(";")[0].strip().lower()
    form, canonical = _canonical(media_type, content_type or "", body)
    asked = _prefixed(_bytes(method), _bytes(path), _bytes(query), _bytes(tenant), _bytes(media_type), form, canonical)
    return Fingerprint(sha256(asked).digest(), VERSION)


def key_hash(tenant: str, key: str) -> bytes:
    """What a key is stored and found by. The same key of another tenant is another."""
    return sha256(_prefixed(_bytes(tenant), _bytes(key))).digest()


def _canonical(media_type: str, content_type: str, body: bytes) -> tuple[bytes, bytes]:
    """Which form the body has, and the body in it. The form is hashed too: bytes that only look like one are not it."""
    if media_type.endswith(("/json", "+json")):
        text = canonical_json(body)
        if text is not None:
            return b"json", text
    elif media_type == "multipart/form-data":
        parts = read_parts(content_type, body)
        if parts is not None:
            return b"parts", _prefixed(*(_part(part) for part in parts))
    return b"raw", body


def _part(part: Part) -> bytes:
    headers = (text for header in part.headers for text in header)
    return _prefixed(*headers, sha256(part.content).digest())


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _prefixed(*parts: bytes) -> bytes:
    """Each with its length, so that nothing of one can pass for a part of the next."""
    return b"".join([piece for part in parts for piece in (len(part).to_bytes(8, "big"), part)])
