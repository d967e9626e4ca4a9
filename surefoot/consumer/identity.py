"""Which event a record is, for the inbox, and behind whom it waits. Pure.

Texts become parts of index entries, which Postgres limits to a third of a page: what is longer is replaced by its hash.
"""

import hashlib

MAX_ID_BYTES = 1000
MAX_KEY_BYTES = 500
RECORD_SOURCE = "surefoot:record"
"""The source in the inbox of a record that is no event: its id is its place in the log."""


def inbox_identity(source: str, event_id: str) -> tuple[str, str]:
    """Source and id as the inbox keeps them."""
    if _fits(source + event_id, MAX_ID_BYTES):
        return source, event_id
    return _hashed(source.encode(), source), _hashed(event_id.encode(), event_id)


def record_identity(topic: str, partition: int, offset: int) -> tuple[str, str]:
    return RECORD_SOURCE, f"{topic}/{partition}/{offset}"


def ordering_key(record_key: bytes | None, otherwise: str) -> str:
    """What the record waits behind: the bytes that chose its partition, as text; or what stands in for them."""
    if record_key is None:
        return otherwise if _fits(otherwise, MAX_KEY_BYTES) else _hashed(otherwise.encode(), otherwise)
    try:
        text = record_key.decode("utf-8")
    except UnicodeDecodeError:
        text = "\\x" + record_key.hex()
    if "\x00" in text:
        text = "\\x" + record_key.hex()
    return text if len(record_key) <= MAX_KEY_BYTES else _hashed(record_key, text)


def _fits(text: str, limit: int) -> bool:
    # No character takes more than four bytes, so most texts need not be encoded to know.
    return len(text) <= limit // 4 or len(text.encode()) <= limit


def _hashed(raw: bytes, text: str) -> str:
    return f"{text[:40]}… sha256:{hashlib.sha256(raw).hexdigest()}"
