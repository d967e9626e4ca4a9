"""How large a record is, the same for every log: the bytes of its key, its value, and its headers' names and values."""

from surefoot.log.port import Record


def record_bytes(record: Record) -> int:
    key, value, headers = record
    size = len(key or b"") + len(value or b"")
    for name, content in headers:
        size += (len(name) if name.isascii() else len(name.encode())) + len(content or b"")
    return size


def too_large(size: int, limit: int, topic: str) -> str:
    return (
        f"The record is {size:,} bytes (key, value and headers); the topic {topic} takes at most {limit:,}. "
        "Make the event smaller, or raise the topic's max_record_bytes."
    )
